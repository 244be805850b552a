/** Describes what is wrong with a backup, in a sentence for the operator. */
import { decodeUtf8 } from '../../base/utf8.ts';

export class Fault extends Error {
  constructor(sentence: string) {
    super(sentence);
    this.name = 'Fault';
  }
}

/** The message is built although it is rarely needed: few checks run per row, and rows are pages. */
export function check(holds: boolean, sentence: string): asserts holds {
  if (!holds) throw new Fault(sentence);
}

/** A bucket, or bucket/stream. */
export function nameText(name: Uint8Array): string {
  return JSON.stringify(decodeUtf8(name).replace('\0', '/'));
}
