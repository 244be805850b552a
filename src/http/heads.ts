/**
 * Beginnings of answers: status line and the header lines that every answer has, as bytes that are
 * made once. uWebSockets.js writes a status as it comes, CRLF included, and takes bytes wherever it
 * takes a string. A string costs it 80 to 200 ns each time (it is measured, copied and freed), bytes
 * cost 20 ns: so the whole beginning is one call of writeStatus.
 */
import { OFFSET_DIGITS, formatOffset, writeOffset } from '../protocol/header-values.ts';

const encoder = new TextEncoder();

const STATUS_LINES: ReadonlyMap<number, string> = new Map(
  [
    ...['200 OK', '201 Created', '204 No Content', '304 Not Modified', '307 Temporary Redirect'],
    ...['400 Bad Request', '401 Unauthorized', '403 Forbidden', '404 Not Found', '405 Method Not Allowed'],
    ...['408 Request Timeout', '409 Conflict', '410 Gone', '412 Precondition Failed', '413 Content Too Large'],
    ...['415 Unsupported Media Type', '416 Range Not Satisfiable', '421 Misdirected Request'],
    ...['422 Unprocessable Content', '426 Upgrade Required', '429 Too Many Requests'],
    ...['500 Internal Server Error', '501 Not Implemented', '502 Bad Gateway', '503 Service Unavailable'],
    '507 Insufficient Storage',
  ].map((line) => [Number.parseInt(line, 10), line]),
);

function statusLine(status: number): string {
  return STATUS_LINES.get(status) ?? `${status} Unknown`;
}

/** Header lines of every answer. */
export function staticBlock(cacheControl: string, cors: string): string {
  const lines = [
    'x-content-type-options: nosniff',
    'cross-origin-resource-policy: cross-origin',
    `cache-control: ${cacheControl}`,
  ];
  if (cors !== '') lines.push(cors);
  return lines.join('\r\n');
}

/** Status line and static block, in bytes, for each status that was answered. */
export class Heads {
  readonly #block: string;
  readonly #byStatus = new Map<number, Uint8Array>();

  constructor(block: string) {
    this.#block = block;
  }

  of(status: number): Uint8Array {
    const known = this.#byStatus.get(status);
    if (known !== undefined) return known;
    const made = encoder.encode(`${statusLine(status)}\r\n${this.#block}`);
    this.#byStatus.set(status, made);
    return made;
  }
}

/** The head of an accepted append up to its position, in the same memory for all: the library copies it at once. */
export class PositionHead {
  readonly #bytes: Uint8Array;

  constructor(status: number, block: string) {
    this.#bytes = encoder.encode(`${statusLine(status)}\r\n${block}\r\nstream-next-offset: ${formatOffset(0)}`);
  }

  at(offset: number): Uint8Array {
    writeOffset(this.#bytes, this.#bytes.length - OFFSET_DIGITS, offset);
    return this.#bytes;
  }
}
