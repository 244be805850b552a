// Takes a multipart/mixed answer apart, strictly by the grammar: delimiter, one header line, bytes.
import assert from 'node:assert/strict';
import type { Answer } from './suite.ts';

export interface Part {
  readonly type: string;
  readonly body: string;
}

export function multipart(answer: Answer): Part[] {
  const type = answer.headers.get('content-type') ?? '';
  const boundary = /^multipart\/mixed; boundary=([A-Za-z0-9-]+)$/.exec(type)?.[1];
  assert(boundary !== undefined, type);
  const pieces = answer.text.split(`--${boundary}`);
  assert.equal(pieces.shift(), '');
  assert.equal(pieces.pop(), '--\r\n');
  return pieces.map((piece) => {
    const match = /^\r\nContent-Type: ([^\r\n]+)\r\n\r\n([\s\S]*)\r\n$/.exec(piece);
    assert(match !== null, piece.slice(0, 200));
    return { type: match[1] as string, body: match[2] as string };
  });
}
