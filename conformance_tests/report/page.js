"use strict";
// Comfort only: the page says everything without it. Controls that need a script are made by the script.

// Paper shows what is folded away.
let folded = [];
addEventListener("beforeprint", () => {
  folded = [...document.querySelectorAll("details:not([open])")];
  folded.forEach((one) => { one.open = true; });
});
addEventListener("afterprint", () => folded.forEach((one) => { one.open = false; }));

// A link to a clause opens what it lies in.
const reveal = () => {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  const around = target && target.closest("details:not([open])");
  if (around) {
    around.open = true;
    target.scrollIntoView();
  }
};
addEventListener("hashchange", reveal);
reveal();

// A button that copies a command.
if (navigator.clipboard) {
  document.querySelectorAll(".repro > code").forEach((code) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = "Copy";
    button.setAttribute("aria-label", "Copy the command");
    button.addEventListener("click", () => navigator.clipboard.writeText(code.textContent).then(() => {
      button.textContent = "Copied";
      setTimeout(() => { button.textContent = "Copy"; }, 1500);
    }, () => getSelection().selectAllChildren(code)));
    code.after(button);
  });
}

// A filter of the clauses, by text and by verdict.
const tools = document.getElementById("tools");
const rows = [...document.querySelectorAll(".matrix tbody tr")];
if (tools && rows.length) {
  const text = document.createElement("input");
  text.type = "search";
  text.placeholder = "clause, case or word";
  const verdict = document.createElement("select");
  ["any verdict", ...new Set(rows.map((row) => row.dataset.verdict))].forEach((word, index) => {
    verdict.append(new Option(word.replaceAll("_", " "), index ? word : ""));
  });
  const said = document.createElement("output");
  const filter = () => {
    const wanted = text.value.toLowerCase();
    let shown = 0;
    rows.forEach((row) => {
      const fits = (!verdict.value || row.dataset.verdict === verdict.value)
        && row.textContent.toLowerCase().includes(wanted);
      row.hidden = !fits;
      shown += fits;
    });
    if (wanted || verdict.value) {
      document.querySelectorAll("details.level").forEach((one) => {
        one.open = Boolean(one.querySelector("tbody tr:not([hidden])"));
      });
    }
    said.textContent = `${shown} of ${rows.length} clauses`;
  };
  [[text, "Filter"], [verdict, "Verdict"]].forEach(([control, name]) => {
    const label = document.createElement("label");
    label.append(`${name} `, control);
    tools.append(label);
    control.addEventListener("input", filter);
  });
  tools.append(said);
  tools.hidden = false;
}
