// A case: what happened, and how to see it again.

const quoted = (text) => D.windows ? `"${text.replaceAll('"', '\\"')}"` : `'${text.replaceAll("'", `'"'"'`)}'`;
const commandOf = (c) => c.command.length > 1 ? c.command.join(quoted(c.recipe)) : c.command[0];
const caseOf = (c) => {
  const box = make("div", { class: "case" });
  const verdict = D.verdicts[c.verdict][0];
  box.append(make("p", {}, make("b", {}, `${kindName(c.kind)} · ${D.backends[c.backend]} · ${verdict}`),
      c.alike > 1 ? ` ${count(c.alike, "case")} fail like this` : ""));
  box.append(make("p", {}, c.sentence));
  if (c.cause || c.workaround || c.files) {
    const list = make("dl");
    if (c.cause) list.append(make("dt", {}, "cause"), make("dd", {}, c.cause));
    if (c.workaround) list.append(make("dt", {}, "work-around"), make("dd", {}, c.workaround));
    if (c.files) list.append(make("dt", {}, "in the bundle"), make("dd", {}, c.files));
    box.append(list);
  }
  if (c.told) box.append(make("pre", {}, c.told));
  const command = commandOf(c), copy = make("button", { type: "button", class: "copy" }, "Copy");
  copy.addEventListener("click", () => copied(command, copy));
  box.append(make("div", { class: "told-again" }, make("pre", { tabindex: "0", "aria-label": "The command that repeats it" },
      command), copy));
  if (c.recipe) box.append(make("details", {}, make("summary", {}, "Recipe"), make("pre", {}, c.recipe)));
  return box;
};
