/**
 * Ids of server-sent events: where a reader continues that has seen the event. A browser's EventSource sends the last one as
 * Last-Event-ID when it reconnects, to the URL that it began with.
 *
 *   00000000000000000042            the offset behind the event's bytes
 *   record=17                       the next record, for readers that are addressed by records; fits `?record=17`
 *   ...;closed                      behind either: the reader has been told that the stream is closed
 */
import { formatOffset, parseOrdinal, parseUint53 } from '../../protocol/header-values.ts';
import { READ_OFFSET, READ_RECORD } from '../../protocol/request.ts';
import type { ReadParams } from '../contract.ts';
import { isRecordRead } from '../read-response.ts';

/** Of a control event. */
interface Place {
  readonly nextOffset: number;
  readonly nextRecord: number | undefined;
  readonly closed: boolean;
}

const RECORD = 'record=';
const CLOSED = ';closed';

/** Of the data event, and of a control event that does not say that the stream is closed. */
export function positionId({ nextOffset, nextRecord }: Place): string {
  return nextRecord === undefined ? formatOffset(nextOffset) : `${RECORD}${nextRecord}`;
}

export function controlId(place: Place): string {
  return place.closed ? `${positionId(place)}${CLOSED}` : positionId(place);
}

/**
 * The read that goes on behind the event `id`, empty for none. Undefined: not an id of an event that this URL gives. Browsers send
 * back what they got, so it is a mistake of somebody's own client, and to begin anew would hide it behind a replay.
 */
export function resumeBehind(params: ReadParams, id: string): ReadParams | undefined {
  if (id === '') return params;
  const sawEnd = id.endsWith(CLOSED);
  const position = sawEnd ? id.slice(0, -CLOSED.length) : id;
  if (isRecordRead(params)) {
    const record = position.startsWith(RECORD) ? parseOrdinal(position.slice(RECORD.length), 'record') : undefined;
    return record?.ok === true ? { ...params, mode: READ_RECORD, value: record.value, sawEnd } : undefined;
  }
  const offset = parseUint53(position);
  return offset.ok ? { ...params, mode: READ_OFFSET, value: offset.value, sawEnd } : undefined;
}
