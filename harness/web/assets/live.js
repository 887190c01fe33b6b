// The present of a run: asks for its figures each second until it ends.
"use strict";
const box = document.getElementById("live");
const $ = (id) => document.getElementById(id);
const number = (n) => n.toLocaleString("en");
const many = (n, one) => `${number(n)} ${one}${n === 1 ? "" : "s"}`;
function show(now) {
  const limit = Number(box.dataset.limit);
  $("progress").value = Math.min(now.time_s, limit);
  const reached = now.behind ? "still reading: " : "";
  $("clock").textContent = reached + (now.time_s ? `${now.time_s.toFixed(1)} s, last: ${now.last}` : "waiting for the first operation");
  $("ended").replaceChildren(...now.ended.map(([f, kind, count]) => {
    const row = document.createElement("tr");
    for (const text of [f, kind, number(count)]) row.insertCell().textContent = text;
    row.cells[2].className = "number";
    return row;
  }));
  $("rate").textContent = `${many(Math.round(now.per_s), "call")} a second, ${number(now.in_flight)} in flight`;
  $("faults").replaceChildren(...(now.faults.length ? now.faults : ["none now"]).map((text) => {
    const item = document.createElement("li");
    item.textContent = text;
    return item;
  }));
  const told = [];
  if (now.stale_reads) told.push(`${many(now.stale_reads, "read")} without ${many(now.missed, "acknowledged value")}`);
  if (now.duplicated) told.push(`${many(now.duplicated, "value")} twice in a read`);
  $("anomalies").textContent = now.broken || told.join("; ") || "none so far";
  $("anomalies").className = told.length || now.broken ? "anomalous" : "";
}
async function turn() {
  let behind = false;
  try {
    const now = await (await fetch(box.dataset.figures)).json();
    show(now);
    behind = now.behind;
    if (!now.alive) { location.replace(box.dataset.figures.replace(/\/figures$/, "")); return; }
  } catch {
    $("clock").textContent = "the server does not answer";
  }
  setTimeout(turn, behind ? 0 : 1000);
}
turn();
