/** Turns a stream into lines for a page. Everything is bounded: a record may have 32 MiB, a stream any bytes. */

export type Form = 'text' | 'json' | 'hex';

/** One line of the viewer. */
export interface Line {
  /** Offset of its first byte; of JSON streams the ordinal of the record. */
  readonly at: number;
  readonly text: string;
}

/** More of one line is cut: a browser lays out no text of megabytes at once. */
export const LINE_CHARS_MAX = 16 * 1024;
const CUT = ' … (cut here)';
const HEX_BYTES = 16;

export function linesOfBytes(bytes: Uint8Array, offset: number, form: 'text' | 'hex'): Line[] {
  return form === 'hex' ? hexLines(bytes, offset) : textLines(bytes, offset);
}

/** A line for each line of the text. Bytes that are no UTF-8 show as the replacement character. */
function textLines(bytes: Uint8Array, offset: number): Line[] {
  const decoder = new TextDecoder();
  const lines: Line[] = [];
  for (let from = 0; from < bytes.length;) {
    const newline = bytes.indexOf(0x0a, from);
    const to = newline < 0 ? bytes.length : newline;
    lines.push({ at: offset + from, text: cut(decoder.decode(bytes.subarray(from, to))) });
    from = newline < 0 ? to : to + 1;
  }
  return lines;
}

function hexLines(bytes: Uint8Array, offset: number): Line[] {
  const lines: Line[] = [];
  for (let from = 0; from < bytes.length; from += HEX_BYTES) {
    const row = [...bytes.subarray(from, from + HEX_BYTES)];
    const hex = row.map((byte) => byte.toString(16).padStart(2, '0')).join(' ');
    const shown = row.map((byte) => (byte >= 0x20 && byte < 0x7f ? String.fromCharCode(byte) : '.')).join('');
    lines.push({ at: offset + from, text: `${hex.padEnd(HEX_BYTES * 3)} ${shown}` });
  }
  return lines;
}

/** Bytes that no text has: a viewer shows them as hex unless it is told otherwise. */
export function looksBinary(contentType: string, bytes: Uint8Array): boolean {
  if (/^(text\/|application\/(json|.*\+json|xml|.*ndjson))/.test(contentType)) return false;
  const sample = bytes.subarray(0, 4096);
  const strange = sample.filter((byte) => byte < 0x20 && byte !== 0x09 && byte !== 0x0a && byte !== 0x0d).length;
  return (
    strange * 50 > sample.length || new TextDecoder().decode(sample.subarray(0, 1024)).slice(0, -4).includes('\uFFFD')
  );
}

/**
 * The elements of a JSON array as they were written: a detour through numbers of JavaScript would show other digits
 * than the stream has. An element that the text breaks off in is left out.
 */
export function elementsOf(json: string): string[] {
  const elements: string[] = [];
  let depth = 0;
  let from = -1;
  for (let at = 0; at < json.length; at++) {
    const char = json[at];
    if (char === '"') {
      if (depth === 1 && from < 0) from = at;
      at = endOfString(json, at);
    } else if (char === '[' || char === '{') {
      if (depth === 1 && from < 0) from = at;
      depth++;
    } else if (char === ']' || char === '}') {
      depth--;
      if (depth === 0 && from >= 0) elements.push(json.slice(from, at).trim());
    } else if (char === ',' && depth === 1) {
      if (from >= 0) elements.push(json.slice(from, at).trim());
      from = -1;
    } else if (depth === 1 && from < 0 && !/\s/.test(char ?? '')) {
      from = at;
    }
  }
  return elements;
}

/** The index of its closing quote, or the end. */
function endOfString(json: string, start: number): number {
  for (let at = start + 1; at < json.length; at++) {
    if (json[at] === '\\') at++;
    else if (json[at] === '"') return at;
  }
  return json.length;
}

const ENVELOPE = /^\{"record":(\d+),"value":/;

/** Reads an answer with `record_view=envelope`. */
export function linesOfRecords(json: string): Line[] {
  return elementsOf(json).flatMap((element) => {
    const match = ENVELOPE.exec(element);
    if (match === null) return [];
    return [{ at: Number(match[1]), text: cut(element.slice(match[0].length, -1)) }];
  });
}

/** A record over several lines, with its own spelling of numbers and strings. */
export function indented(record: string): string {
  let out = '';
  let depth = 0;
  for (let at = 0; at < record.length; at++) {
    const char = record[at] ?? '';
    if (char === '"') {
      const end = endOfString(record, at);
      out += record.slice(at, end + 1);
      at = end;
    } else if ((char === '{' || char === '[') && /[\]}]/.test(record[at + 1] ?? '')) {
      out += char + (record[++at] ?? '');
    } else if (char === '{' || char === '[') {
      out += `${char}\n${'  '.repeat(++depth)}`;
    } else if (char === '}' || char === ']') {
      out += `\n${'  '.repeat(Math.max(0, --depth))}${char}`;
    } else if (char === ',') {
      out += `,\n${'  '.repeat(depth)}`;
    } else if (char === ':') {
      out += ': ';
    } else {
      out += char;
    }
  }
  return out;
}

/** Lines that hold the text, whatever its case. */
export function matching(lines: readonly Line[], text: string): readonly Line[] {
  const wanted = text.toLowerCase();
  return wanted === '' ? lines : lines.filter((line) => line.text.toLowerCase().includes(wanted));
}

function cut(text: string): string {
  return text.length <= LINE_CHARS_MAX ? text : text.slice(0, LINE_CHARS_MAX) + CUT;
}
