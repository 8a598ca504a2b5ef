// A case: what happened, and how to see it again.

const quoted = (text) => D.windows ? `"${text.replaceAll('"', '\\"')}"` : `'${text.replaceAll("'", `'"'"'`)}'`;
const commandOf = (c) => c.command.length > 1 ? c.command.join(quoted(c.recipe)) : c.command[0];
const linkOf = (c) => `#${new URLSearchParams({ op: c.operator, case: c.id })}`;
const filesOf = (c) => {
  const at = c.files.lastIndexOf(": "), folder = c.files.slice(0, at), names = c.files.slice(at + 2).split(", ");
  if (!D.linked) return [c.files];
  const path = folder.split("/").map(encodeURIComponent).join("/");
  return [`${folder}: `, ...names.flatMap((name, i) => [i ? ", " : "", make("a", { href: `${path}/${encodeURIComponent(name)}` }, name)])];
};
const caseOf = (c) => {
  const box = make("div", { class: "case", "data-case": c.id });
  const verdict = D.verdicts[c.verdict][0];
  box.append(make("p", {}, make("b", {}, `${kindName(c.kind)} · ${D.backends[c.backend]} · ${verdict}`),
      c.alike > 1 ? ` ${count(c.alike, "case")} fail like this` : "",
      c.small ? " made smaller" : "", make("a", { class: "link", href: linkOf(c) }, "link to this case")));
  box.append(make("p", {}, c.sentence));
  if (c.cause || c.workaround || c.files) {
    const list = make("dl");
    if (c.cause) list.append(make("dt", {}, "cause"), make("dd", {}, c.cause));
    if (c.workaround) list.append(make("dt", {}, "work-around"), make("dd", {}, c.workaround));
    if (c.files) list.append(make("dt", {}, "in the bundle"), make("dd", {}, ...filesOf(c)));
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
