// Each process that shares the store, and their sum.

import { byId, fillTable, setShown } from "./dom.mjs";
import { processName, rateWords } from "./words.mjs";

/** @param {State} state */
export function showProcesses({ processes }) {
  const all = processes ?? [];
  setShown(byId("processes-section"), all.length > 1);
  const sumOf = (/** @type {"allowed" | "refused"} */ name) =>
    all.reduce((sum, { per_second: rates }) => sum + (rates?.[name] ?? 0), 0);
  const sum = {
    instance: `All ${all.length}`,
    status: "",
    rules: null,
    answers_here: false,
    per_second: { allowed: sumOf("allowed"), refused: sumOf("refused") },
  };
  fillTable(byId("processes"), [sum, ...all], ({ instance }) => instance, [
    { head: "Process", text: ({ instance }) => processName(instance) },
    {
      head: "Status",
      text: ({ status, answers_here: isHere }) => `${status ?? "starting"}${isHere ? ", answers here" : ""}`,
    },
    {
      head: "Calls/s",
      is: "number",
      text: ({ per_second: rates }) => rateWords(rates && rates.allowed + rates.refused),
    },
    { head: "Refused/s", is: "number", text: ({ per_second: rates }) => rateWords(rates?.refused ?? null) },
    { head: "Rules", is: "number wide", text: ({ rules }) => rules?.slice(0, 7) ?? "" },
  ]);
}
