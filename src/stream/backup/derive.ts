/** Index rows, which a backup omits because they follow from other rows. Keys have no prefix. */
import { planted } from '../../base/planted.ts';
import { decodeChunkRow } from '../../protocol/cold.ts';
import type { Head } from '../core/head.ts';
import {
  TAG_CHUNK,
  TAG_CHUNK_RECORD,
  TAG_DATA,
  TAG_RECORD,
  expiryKey,
  flushKey,
  positionKey,
  bareIncarnationOf,
  bareKey,
  barePositionOf,
} from '../core/keys.ts';
import { START_ROW } from '../core/row.ts';
import { RowView } from '../core/row-view.ts';
import type { RowSink } from './row-order.ts';

const view = new RowView();

/** The entries of a stream in the expiry index and in the flush index. */
export function deriveOfHead(head: Head, sink: RowSink): void {
  if (head.indexedDeadlineMs >= 0 && !planted('import-lists-no-lifetimes'))
    sink(bareKey(expiryKey(0, head.indexedDeadlineMs, head.incarnation)), head.key);
  if (head.hotSinceMs >= 0 && !planted('import-lists-no-hot-streams'))
    sink(bareKey(flushKey(0, head.hotSinceMs, head.incarnation)), head.key);
}

/** The entry of a JSON stream's row or chunk in the index by record. */
export function deriveOfPart(key: Uint8Array, value: Uint8Array, sink: RowSink): void {
  const incarnation = bareIncarnationOf(key);
  const start = barePositionOf(key);
  if (key[0] === TAG_DATA) {
    view.ofValue(start, value);
    if (view.count > 0)
      sink(bareKey(positionKey(0, TAG_RECORD, incarnation, view.firstRecord)), START_ROW.encode({ start }));
  } else if (key[0] === TAG_CHUNK) {
    const { firstRecord, recordNext } = decodeChunkRow(value);
    if (recordNext > firstRecord)
      sink(bareKey(positionKey(0, TAG_CHUNK_RECORD, incarnation, firstRecord)), START_ROW.encode({ start }));
  }
}
