/**
 * Beginnings of answers: status line and the header lines that every answer has, as bytes that are made once. uWebSockets.js writes a
 * status as it comes, CRLF included, and takes bytes wherever it takes a string. A string costs it 80 to 200 ns each time (it is
 * measured, copied and freed), bytes cost 20 ns: so the whole beginning is one call of writeStatus.
 */
import { OFFSET_DIGITS, formatOffset, writeOffset } from '../protocol/header-values.ts';

const encoder = new TextEncoder();

const STATUS_LINES: ReadonlyMap<number, string> = new Map([
  [200, '200 OK'],
  [201, '201 Created'],
  [204, '204 No Content'],
  [307, '307 Temporary Redirect'],
  [304, '304 Not Modified'],
  [400, '400 Bad Request'],
  [401, '401 Unauthorized'],
  [403, '403 Forbidden'],
  [404, '404 Not Found'],
  [405, '405 Method Not Allowed'],
  [408, '408 Request Timeout'],
  [409, '409 Conflict'],
  [410, '410 Gone'],
  [412, '412 Precondition Failed'],
  [413, '413 Content Too Large'],
  [415, '415 Unsupported Media Type'],
  [416, '416 Range Not Satisfiable'],
  [421, '421 Misdirected Request'],
  [422, '422 Unprocessable Content'],
  [429, '429 Too Many Requests'],
  [500, '500 Internal Server Error'],
  [501, '501 Not Implemented'],
  [502, '502 Bad Gateway'],
  [503, '503 Service Unavailable'],
  [507, '507 Insufficient Storage'],
]);

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

/** The head of an accepted append up to its position. One piece of memory for all of them: the library copies it within the call. */
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
