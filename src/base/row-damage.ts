/** A row of the state that is not what was written: it is never used, and never sent to another node. */
import { toHex } from './hex.ts';
import type { Tx } from './tx.ts';

export class RowDamage extends Error {
  readonly key: Uint8Array;

  constructor(key: Uint8Array, why: string, options?: ErrorOptions) {
    super(`row ${toHex(key)} of the state is damaged: ${why}`, options);
    this.name = 'RowDamage';
    this.key = key.slice();
  }
}

/** As an assertion, about rows that name each other: a disk that changes the key of one takes it away. Throws RowDamage. */
export function needRow(isSound: boolean, key: Uint8Array, why: string): asserts isSound {
  if (!isSound) throw new RowDamage(key, why);
}

/** The usual reason. */
export const ROW_MISSING = 'it is missing, and others name it';

/** The row, which others name. Throws RowDamage when it is missing. */
export function neededRow(rows: Pick<Tx, 'get'>, key: Uint8Array): Uint8Array {
  const row = rows.get(key);
  needRow(row !== undefined, key, ROW_MISSING);
  return row;
}
