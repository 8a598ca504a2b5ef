// Lines over the nights begin with the last one where they do not fit.
for (const box of document.querySelectorAll(".night-line .scroll")) box.scrollLeft = box.scrollWidth;

// The search on the page of environments; its text stands in the address.
const find = $("find");
const search = () => {
  const words = find.value.toLowerCase().split(/\s+/).filter(Boolean), all = [...document.querySelectorAll(".environment")];
  for (const one of all) one.hidden = !words.every((word) => one.dataset.text.includes(word));
  const left = all.filter((one) => !one.hidden).length;
  $("count").textContent = left === all.length ? "" : left ? `${left} of ${count(all.length, "environment")}` : "No environment has all of these words.";
};
if (find) {
  const read = () => { find.value = new URLSearchParams(location.hash.slice(1)).get("q") || ""; search(); };
  find.addEventListener("input", () => {
    history.replaceState(null, "", `#${new URLSearchParams(find.value ? { q: find.value } : {})}`);
    search();
  });
  find.form.addEventListener("submit", (e) => e.preventDefault());
  addEventListener("hashchange", read);
  read();
}
