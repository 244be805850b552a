/** A refusal's details beyond its code: a sentence that names both sides of the comparison. */
import { TEXT } from './generic-fields.ts';
import type { Reply } from './reply.ts';

/** For the client; it follows the sentence of the code. */
export function explain(reply: Reply, detail: string): void {
  reply[TEXT] = detail;
}

/** Empty: nothing. */
export function explanation(reply: Reply): string {
  return reply.code === 0 ? '' : reply[TEXT];
}
