/** A row of the state that is not what was written: it is never used, and never sent to another node. */
import { toHex } from './hex.ts';

export class RowDamage extends Error {
  readonly key: Uint8Array;

  constructor(key: Uint8Array, why: string, options?: ErrorOptions) {
    super(`row ${toHex(key)} of the state is damaged: ${why}`, options);
    this.name = 'RowDamage';
    this.key = key.slice();
  }
}
