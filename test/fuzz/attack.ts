// Attacks, and how their bytes are written.

export interface Attack {
  readonly label: string;
  readonly bytes: Buffer;
  /** The framing is whole, so the server owes an answer or a closed connection. */
  readonly complete: boolean;
}

export const FUZZ_BUCKET = 'fuzz';
export const MIB = 1024 * 1024;
export const FAMILIES = [`/${FUZZ_BUCKET}/`, `/v1/stream/${FUZZ_BUCKET}/`] as const;

/** Everything in latin1, so that any byte can be written as an escape. */
export const latin1 = (text: string): Buffer => Buffer.from(text, 'latin1');

export function request(
  method: string,
  path: string,
  headers: readonly string[] = [],
  body: string | Buffer = '',
): Buffer {
  const payload = typeof body === 'string' ? latin1(body) : body;
  const lines = [
    `${method} ${path} HTTP/1.1`,
    'Host: localhost',
    ...headers,
    `Content-Length: ${payload.length}`,
    '',
    '',
  ];
  return Buffer.concat([latin1(lines.join('\r\n')), payload]);
}
