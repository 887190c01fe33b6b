// The statements of calls, and what the servers logged of them: one click from a call.
"use strict";

// Returns a line of a log, which stands out from the next one where both are wrapped.
function logged(line) {
  const span = document.createElement("span");
  span.textContent = `${line}\n`;
  if (/<(Fatal|Critical|Error|Warning)>/.test(line)) span.className = "grave";
  return span;
}

class Statements {
  static async decode(encoded) { return new Statements(encoded ? await decoded(encoded) : null); }

  constructor(data) { this.data = data; }

  // Returns the elements that show the statements and log lines of the call that began with an op, none without any.
  of(op) {
    if (!this.data) return [];
    const calls = this.data.calls[op];
    if (!calls) return definitions([["statement", `none on this page; ${this.#command(op)}`]]);
    const ids = calls.map(([, , id]) => id).filter(Boolean);
    const sql = this.#block("statement", [calls.map((one) => this.#text(one)).join("\n")], ids.length ? `query_id ${ids.join(", ")}` : "");
    const logs = (this.data.logs[op] ?? []).map(([file, lines, more]) =>
      this.#block("log", lines.map(logged), file + (more ? `, ${more} more lines left out` : "")));
    if (!logs.length && ids.length) logs.push(definitions([["log", `no line with this query_id on this page; ${this.#command(op)}`]]));
    return [sql, ...logs].flat();
  }

  #text([head, node, , numbers, rows]) {
    const [before, text, after] = this.data.heads[head], parts = text.split("{}");
    // A text that has braces of its own was stored as it is, without numbers.
    const sql = numbers.length ? parts.map((part, i) => part + (numbers[i] ?? "")).join("") : text;
    return `/* ${this.data.nodes[node]} */\n${before}${sql}${rows ? " " + rows : ""};${after}`;
  }

  #command(op) { return `harness report ${this.data.run} --op ${op}`; }

  // Returns the title and the box of some text, in pieces.
  #block(label, pieces, title) {
    const [dt, dd] = definitions([[label, ""]]), pre = document.createElement("pre"), copy = document.createElement("button");
    pre.append(...pieces);
    pre.className = label;
    pre.tabIndex = 0;
    pre.id = `own-${Statements.#count++}`;
    copy.type = "button";
    copy.dataset.copy = pre.id;
    copy.textContent = "copy";
    const head = document.createElement("span");
    head.className = "dim";
    head.textContent = title;
    dd.append(head, " ", copy, pre);
    dd.className = "whole";
    dt.className = "whole";
    return [dt, dd];
  }

  static #count = 0;
}
