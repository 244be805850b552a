/**
 * Exports in their thread (workers/export.ts): reading, encoding, hashing. Several take turns, a piece each; each
 * pauses while its output is in flight and continues when it was sent.
 */
import { EXPORT_WINDOW_BYTES } from '../../base/limits.ts';
import { type ExportOrder, GroupExport, type GroupRows } from './group-export.ts';

/** Messages from the main thread. */
export type ToExports =
  | { readonly open: number; readonly shard: number; readonly order: ExportOrder }
  | { readonly left: number; readonly bytes: number }
  | { readonly close: number }
  | { readonly stop: true };

/** Messages to the main thread about the export with that number. */
export type FromExports =
  | { readonly id: number; readonly begun: { readonly commitIndex: number; readonly digest: string | undefined } }
  | { readonly id: number; readonly piece: Uint8Array<ArrayBuffer> }
  | { readonly id: number; readonly end: true }
  | { readonly id: number; readonly failed: string };

interface Running {
  readonly id: number;
  readonly work: GroupExport;
  begun: boolean;
  /** Bytes that may still be produced. */
  credit: number;
}

export interface ExportingHost {
  open(shard: number, group: number): GroupRows;
  post(message: FromExports): void;
  /** Runs it soon, after handling what arrived meanwhile. */
  later(run: () => void): void;
}

export class Exporting {
  readonly #host: ExportingHost;
  readonly #running = new Map<number, Running>();
  #scheduled = false;

  constructor(host: ExportingHost) {
    this.#host = host;
  }

  open(id: number, shard: number, order: ExportOrder): void {
    let rows: GroupRows | undefined;
    try {
      rows = this.#host.open(shard, order.group);
      const work = new GroupExport(rows, order);
      this.#running.set(id, { id, work, begun: false, credit: EXPORT_WINDOW_BYTES });
    } catch (error) {
      rows?.close();
      return this.#host.post({ id, failed: String(error) });
    }
    return this.#schedule();
  }

  /** Pieces of this many bytes were sent. */
  left(id: number, bytes: number): void {
    const one = this.#running.get(id);
    if (one === undefined) return;
    one.credit += bytes;
    this.#schedule();
  }

  close(id: number): void {
    this.#running.get(id)?.work.close();
    this.#running.delete(id);
  }

  stop(): void {
    for (const id of this.#running.keys()) this.close(id);
  }

  #schedule(): void {
    if (this.#scheduled) return;
    this.#scheduled = true;
    this.#host.later(() => {
      this.#scheduled = false;
      for (const one of this.#running.values()) if (one.credit > 0) this.#work(one);
      for (const { credit } of this.#running.values()) if (credit > 0) return this.#schedule();
      return undefined;
    });
  }

  #work(one: Running): void {
    const { id, work } = one;
    try {
      if (!one.begun) return this.#begin(one);
      const piece = work.next();
      if (piece !== undefined) return this.#piece(one, piece);
      this.close(id);
      return this.#host.post({ id, end: true });
    } catch (error) {
      this.close(id);
      return this.#host.post({ id, failed: String((error as Error).stack ?? error) });
    }
  }

  #begin(one: Running): void {
    one.begun = true;
    const { commitIndex, digest, pieces } = one.work.begin();
    this.#host.post({ id: one.id, begun: { commitIndex, digest } });
    for (const piece of pieces) this.#piece(one, piece);
  }

  #piece(one: Running, piece: Uint8Array<ArrayBuffer>): void {
    one.credit -= piece.length;
    this.#host.post({ id: one.id, piece });
  }
}
