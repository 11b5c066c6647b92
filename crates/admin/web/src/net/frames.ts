// Parser of server-sent events: from text in any pieces to whole events.

/** Event of the stream. */
export interface StreamEvent {
  id: string;
  event: string;
  data: string;
}

/** Collects pieces of the stream and returns the events that they complete. */
export class FrameParser {
  #rest = "";
  #id = "";

  push(piece: string): StreamEvent[] {
    const lines = (this.#rest + piece).replace(/\r\n/g, "\n");
    const blocks = lines.split("\n\n");
    this.#rest = blocks.pop() ?? "";
    return blocks.flatMap((block) => this.#parse(block));
  }

  #parse(block: string): StreamEvent[] {
    let event = "message";
    const data: string[] = [];
    for (const line of block.split("\n")) {
      const [field, value] = splitField(line);
      if (field === "id") this.#id = value;
      else if (field === "event") event = value;
      else if (field === "data") data.push(value);
    }
    return data.length ? [{ id: this.#id, event, data: data.join("\n") }] : [];
  }
}

function splitField(line: string): [string, string] {
  const colon = line.indexOf(":");
  if (colon < 0) return [line, ""];
  const value = line.slice(colon + 1);
  return [line.slice(0, colon), value.startsWith(" ") ? value.slice(1) : value];
}
