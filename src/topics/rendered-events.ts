/**
 * Events of ranges that the read cache holds, rendered. Readers that catch up from the same place get the same bytes
 * but for their cursor, which is the same for nearly all of them, and rendering takes ten times as long as reading.
 */
import { LRUCache } from 'lru-cache';
import { RENDERED_EVENTS_BYTES_MAX } from '../base/limits.ts';
import { type Control, type View, joinFrames, renderEvent } from './events.ts';

/** An event, but for its bytes. */
export interface EventFields extends Control {
  readonly view: View;
  readonly cursor: number;
}

interface Rendered {
  readonly fields: EventFields;
  /** How much of the range the event brings. */
  readonly length: number;
  readonly event: Uint8Array;
}

export class RenderedEvents {
  /** By the range's own memory: as long as that is kept, its bytes do not change. */
  readonly #rendered = new LRUCache<Uint8Array, Rendered>({
    maxSize: RENDERED_EVENTS_BYTES_MAX,
    sizeCalculation: ({ event }, range) => event.length + range.length,
  });

  get bytes(): number {
    return this.#rendered.calculatedSize;
  }

  /** The event for the first `length` bytes of `range`, which is kept as it is. */
  of(range: Uint8Array, length: number, fields: EventFields): Uint8Array {
    const known = this.#rendered.get(range);
    if (known !== undefined && known.length === length && isSame(known.fields, fields)) return known.event;
    const event = render(range.subarray(0, length), fields);
    this.#rendered.set(range, { fields, length, event });
    return event;
  }
}

export function render(bytes: Uint8Array | undefined, fields: EventFields): Uint8Array {
  return joinFrames([renderEvent(fields.view, bytes, fields)], fields.cursor);
}

function isSame(a: EventFields, b: EventFields): boolean {
  return (
    a.view === b.view &&
    a.cursor === b.cursor &&
    a.nextOffset === b.nextOffset &&
    a.upToDate === b.upToDate &&
    a.closed === b.closed &&
    a.firstRecord === b.firstRecord &&
    a.nextRecord === b.nextRecord
  );
}
