import { int32At } from '../base/bytes.ts';
import { assert } from '../base/assert.ts';
import {
  CONTROL_BYTES,
  CONTROL_WORDS,
  HEAD,
  READER_PARKED,
  RECORD_HEADER_BYTES,
  RECORDS_IN,
  RECORDS_OUT,
  recordBytes,
  RING_BYTES_MAX,
  RING_BYTES_MIN,
  SKIP_TO_START,
  TAIL,
  WRITER_WAITS,
} from './layout.ts';

/**
 * One-producer one-consumer ring of variable-size records over a SharedArrayBuffer.
 *
 *        HEAD            read           TAIL          write
 *   ......|###############|==============|------------|........
 *   free   read, not yet   published,     committed,    free
 *          given back      not yet read   not visible
 *
 * Both cursors count bytes modulo 2^32 and never reset; they are kept as signed 32-bit integers, so that V8 keeps them
 * unboxed: `(a - b) | 0` is the distance and `cursor & mask` the position, because the capacity divides 2^32. Full
 * (distance = capacity) differs from empty (distance = 0), no slot is wasted.
 *
 * Record: sizeBytes i32, payload, padding to 8. A record is contiguous: when it does not fit before the end of the data
 * area, SKIP_TO_START stands in place of its size (there is always room for it: positions are multiples of 8) and the
 * record begins at 0. One record may take at most half of the capacity, so in an empty ring every legal record fits
 * wherever the cursors stand: skipped bytes < record <= capacity / 2.
 *
 * Ordering: payload, size and counts are plain stores. The sequentially consistent store of TAIL (HEAD) publishes
 * them, the load of it on the other side acquires them. Each side keeps the other's cursor cached and loads it again
 * only when the cached one says "full" ("empty"): one atomic operation per batch, not per record.
 */
export function createRing(capacityBytes: number): SharedArrayBuffer {
  assertCapacity(capacityBytes);
  return new SharedArrayBuffer(CONTROL_BYTES + capacityBytes);
}

export class RingWriter {
  /** The data area; write only inside the span that `reserve` returned, before `commit`. */
  readonly bytes: Uint8Array<SharedArrayBuffer>;
  readonly view: DataView<SharedArrayBuffer>;
  readonly capacityBytes: number;
  /** A larger record is a programming error: big payloads use the transfer channel (transfer-channel.ts). */
  readonly recordBytesMax: number;

  readonly #control: Int32Array<SharedArrayBuffer>;
  readonly #words: Int32Array<SharedArrayBuffer>;
  readonly #mask: number;
  #write: number;
  #published: number;
  #headCached: number;
  #recordsIn: number;
  /** Payload bytes of the open reservation, -1 when there is none. */
  #reservedBytes = -1;
  #skipBytes = 0;

  constructor(sab: SharedArrayBuffer) {
    const capacityBytes = ringCapacityBytes(sab);
    this.capacityBytes = capacityBytes;
    this.recordBytesMax = ringRecordBytesMax(capacityBytes);
    this.bytes = new Uint8Array(sab, CONTROL_BYTES, capacityBytes);
    this.view = new DataView(sab, CONTROL_BYTES, capacityBytes);
    this.#control = controlOf(sab);
    this.#words = new Int32Array(sab, CONTROL_BYTES, capacityBytes >> 2);
    this.#mask = capacityBytes - 1;
    this.#published = Atomics.load(this.#control, TAIL);
    this.#write = this.#published;
    this.#headCached = Atomics.load(this.#control, HEAD);
    this.#recordsIn = Atomics.load(this.#control, RECORDS_IN);
  }

  /**
   * Finds a contiguous span for a record of at most `sizeBytes` and returns its offset in `bytes`, or -1 when it does
   * not fit now. A reservation that is never committed leaves no trace; the next `reserve` replaces it.
   */
  reserve(sizeBytes: number): number {
    assert(sizeBytes >= 0 && sizeBytes <= this.recordBytesMax, 'ring record is larger than half of the ring');
    const neededBytes = recordBytes(sizeBytes);
    const position = this.#write & this.#mask;
    const toEndBytes = this.capacityBytes - position;
    const skipBytes = neededBytes > toEndBytes ? toEndBytes : 0;
    const limitBytes = this.capacityBytes - skipBytes - neededBytes;
    if (((this.#write - this.#headCached) | 0) > limitBytes) {
      this.#headCached = Atomics.load(this.#control, HEAD);
      if (((this.#write - this.#headCached) | 0) > limitBytes) {
        this.#reservedBytes = -1;
        return -1;
      }
    }
    this.#reservedBytes = sizeBytes;
    this.#skipBytes = skipBytes;
    return (skipBytes === 0 ? position : 0) + RECORD_HEADER_BYTES;
  }

  /** The reserved span becomes a record of `sizeBytes` (at most what was reserved); readers see it after `publish`. */
  commit(sizeBytes: number): void {
    assert(sizeBytes >= 0 && sizeBytes <= this.#reservedBytes, 'ring commit is larger than its reservation');
    let write = this.#write;
    if (this.#skipBytes !== 0) {
      this.#words[(write & this.#mask) >> 2] = SKIP_TO_START;
      write = (write + this.#skipBytes) | 0;
    }
    this.#words[(write & this.#mask) >> 2] = sizeBytes;
    this.#write = (write + recordBytes(sizeBytes)) | 0;
    this.#recordsIn = (this.#recordsIn + 1) | 0;
    this.#reservedBytes = -1;
  }

  /**
   * Makes every committed record visible. Returns true when the reader was parked; exactly this call must then wake it
   * (`waker.wake()`). This call checks the flag after the store of TAIL, and the reader sets it before it checks TAIL
   * again, both sequentially consistent: at least one of the two sees the other.
   */
  publish(): boolean {
    if (this.#published === this.#write) return false;
    this.#published = this.#write;
    this.#control[RECORDS_IN] = this.#recordsIn;
    Atomics.store(this.#control, TAIL, this.#write);
    if (Atomics.load(this.#control, READER_PARKED) === 0) return false;
    return Atomics.compareExchange(this.#control, READER_PARKED, 1, 0) === 1;
  }

  /** Records committed and not published. */
  get unpublished(): number {
    return (this.#recordsIn - int32At(this.#control, RECORDS_IN)) | 0;
  }

  /** Whether the reader sleeps, or is about to: the next `publish` wakes it. A hint: it may wake at any time. */
  get isReaderParked(): boolean {
    return Atomics.load(this.#control, READER_PARKED) === 1;
  }

  /**
   * Asks for a notification of free space: the reader's next `release` that frees something returns true, and its
   * thread then wakes this one (Waker.interrupt). Call it after `reserve` returned -1, then try `reserve` once more:
   * the reader may have released everything just before, and then no signal would come.
   */
  requestSpace(): void {
    Atomics.store(this.#control, WRITER_WAITS, 1);
  }

  /**
   * For a thread that may block: sleeps until the reader freed space or `timeoutMs` have passed. Call it after
   * `requestSpace` and another refused `reserve`; the reader's thread answers with `wakeWriter`.
   */
  waitForSpace(timeoutMs: number): void {
    Atomics.wait(this.#control, WRITER_WAITS, 1, timeoutMs);
  }

  /** Bytes in use, including headers, padding and records committed but not published. */
  usedBytes(): number {
    this.#headCached = Atomics.load(this.#control, HEAD);
    return (this.#write - this.#headCached) | 0;
  }
}

export class RingReader {
  /** The data area; the current record is at `offset`, `length` bytes, and stays until `release`. */
  readonly bytes: Uint8Array<SharedArrayBuffer>;
  readonly view: DataView<SharedArrayBuffer>;
  readonly capacityBytes: number;
  readonly sab: SharedArrayBuffer;
  offset = 0;
  length = 0;

  readonly #control: Int32Array<SharedArrayBuffer>;
  readonly #words: Int32Array<SharedArrayBuffer>;
  readonly #mask: number;
  readonly #recordBytesMax: number;
  #read: number;
  #released: number;
  #tailCached: number;
  #recordsOut: number;

  constructor(sab: SharedArrayBuffer) {
    const capacityBytes = ringCapacityBytes(sab);
    this.sab = sab;
    this.capacityBytes = capacityBytes;
    this.bytes = new Uint8Array(sab, CONTROL_BYTES, capacityBytes);
    this.view = new DataView(sab, CONTROL_BYTES, capacityBytes);
    this.#control = controlOf(sab);
    this.#words = new Int32Array(sab, CONTROL_BYTES, capacityBytes >> 2);
    this.#mask = capacityBytes - 1;
    this.#recordBytesMax = ringRecordBytesMax(capacityBytes);
    this.#released = Atomics.load(this.#control, HEAD);
    this.#read = this.#released;
    this.#tailCached = this.#read; // the first `next` loads and checks it
    this.#recordsOut = Atomics.load(this.#control, RECORDS_OUT);
  }

  /** Moves to the next record (`offset`, `length`); false when nothing is waiting. */
  next(): boolean {
    if (this.#read === this.#tailCached && !this.#loadTail()) return false;
    let position = this.#read & this.#mask;
    let sizeBytes = int32At(this.#words, position >> 2);
    if (sizeBytes === SKIP_TO_START) {
      this.#read = (this.#read + this.capacityBytes - position) | 0;
      position = 0;
      sizeBytes = int32At(this.#words, 0);
    }
    assert(sizeBytes >= 0 && sizeBytes <= this.#recordBytesMax, 'ring record has an impossible size');
    this.#read = (this.#read + recordBytes(sizeBytes)) | 0;
    assert(((this.#tailCached - this.#read) | 0) >= 0, 'ring record reaches beyond what was published');
    this.#recordsOut = (this.#recordsOut + 1) | 0;
    this.offset = position + RECORD_HEADER_BYTES;
    this.length = sizeBytes;
    return true;
  }

  /**
   * Returns the space of everything read so far to the writer. Returns true when the writer asked for space
   * (`requestSpace`); exactly this call must then wake its thread. A thread that answers on another ring must release
   * before it publishes the answers: a refused writer tries again when answers arrive and has no other signal.
   */
  release(): boolean {
    if (this.#released === this.#read) return false;
    this.#released = this.#read;
    this.#control[RECORDS_OUT] = this.#recordsOut;
    Atomics.store(this.#control, HEAD, this.#read);
    if (Atomics.load(this.#control, WRITER_WAITS) === 0) return false;
    return Atomics.compareExchange(this.#control, WRITER_WAITS, 1, 0) === 1;
  }

  /** Ends the writer's `waitForSpace`; call it when `release` returned true. */
  wakeWriter(): void {
    Atomics.notify(this.#control, WRITER_WAITS, 1);
  }

  /** Whether `next` would find a record. Loads TAIL only when all known records are read. */
  hasNext(): boolean {
    return this.#read !== this.#tailCached || this.#loadTail();
  }

  /** Published records that `next` has not passed yet; approximate while the writer is publishing. */
  get depth(): number {
    return (Atomics.load(this.#control, RECORDS_IN) - this.#recordsOut) | 0;
  }

  #loadTail(): boolean {
    this.#tailCached = Atomics.load(this.#control, TAIL);
    const waitingBytes = (this.#tailCached - this.#read) | 0;
    assert(waitingBytes >= 0 && waitingBytes <= this.capacityBytes, 'ring cursors are out of order');
    return waitingBytes !== 0;
  }
}

export function ringCapacityBytes(sab: SharedArrayBuffer): number {
  const capacityBytes = sab.byteLength - CONTROL_BYTES;
  assertCapacity(capacityBytes);
  return capacityBytes;
}

/** The largest payload of one record. */
export function ringRecordBytesMax(capacityBytes: number): number {
  return capacityBytes / 2 - RECORD_HEADER_BYTES;
}

/** Records published and not yet given back, from any thread. Two moving counters: good for metrics only. */
export function ringDepth(sab: SharedArrayBuffer): number {
  const control = controlOf(sab);
  const recordsOut = Atomics.load(control, RECORDS_OUT);
  return Math.max(0, (Atomics.load(control, RECORDS_IN) - recordsOut) | 0);
}

/** Bytes published and not yet given back, from any thread; a snapshot like `ringDepth`. */
export function ringUsedBytes(sab: SharedArrayBuffer): number {
  const control = controlOf(sab);
  const head = Atomics.load(control, HEAD);
  return Math.min(ringCapacityBytes(sab), Math.max(0, (Atomics.load(control, TAIL) - head) | 0));
}

function controlOf(sab: SharedArrayBuffer): Int32Array<SharedArrayBuffer> {
  return new Int32Array(sab, 0, CONTROL_WORDS);
}

function assertCapacity(capacityBytes: number): void {
  const powerOfTwo = capacityBytes > 0 && (capacityBytes & (capacityBytes - 1)) === 0;
  assert(
    powerOfTwo && capacityBytes >= RING_BYTES_MIN && capacityBytes <= RING_BYTES_MAX,
    `ring capacity ${capacityBytes} is not a power of two from ${RING_BYTES_MIN} to ${RING_BYTES_MAX} bytes`,
  );
}
