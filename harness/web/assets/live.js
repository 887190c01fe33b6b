// The live view of a run: polls its figures every second until it ends.
"use strict";
const section = document.getElementById("live");
const $ = (id) => document.getElementById(id);
const number = (n) => n.toLocaleString("en");
const plural = (n, one) => `${number(n)} ${one}${n === 1 ? "" : "s"}`;
function show(now) {
  const limit = Number(section.dataset.limit);
  $("progress").value = Math.min(now.time_s, limit);
  const reached = now.behind ? "still reading: " : "";
  $("clock").textContent = reached + (now.time_s ? `${now.time_s.toFixed(1)} s, last: ${now.last}` : "waiting for the first operation");
  $("ended").replaceChildren(...now.ended.map(([f, kind, count]) => {
    const row = document.createElement("tr");
    for (const text of [f, kind, number(count)]) row.insertCell().textContent = text;
    row.cells[2].className = "number";
    return row;
  }));
  $("rate").textContent = `${plural(Math.round(now.per_s), "call")} a second, ${number(now.in_flight)} in flight`;
  $("faults").replaceChildren(...(now.faults.length ? now.faults : ["none now"]).map((text) => {
    const item = document.createElement("li");
    item.textContent = text;
    return item;
  }));
  const anomalies = [];
  if (now.stale_reads) anomalies.push(`${plural(now.stale_reads, "read")} without ${plural(now.missed, "acknowledged value")}`);
  if (now.duplicated) anomalies.push(`${plural(now.duplicated, "value")} twice in a read`);
  $("anomalies").textContent = now.broken || anomalies.join("; ") || "none so far";
  $("anomalies").className = anomalies.length || now.broken ? "anomalous" : "";
}
async function poll() {
  let behind = false;
  try {
    const now = await (await fetch(section.dataset.figures)).json();
    show(now);
    behind = now.behind;
    if (!now.alive) { location.replace(section.dataset.figures.replace(/\/figures$/, "")); return; }
  } catch {
    $("clock").textContent = "the server does not answer";
  }
  setTimeout(poll, behind ? 0 : 1000);
}
poll();
