/** The folder of the log's segments on a simulated disk, for one life of a process. */
import { freshBytes } from '../../src/store/log-record.ts';
import type { SegmentFile, LogFolder } from '../../src/store/log-files.ts';
import type { SimSegment } from './log-disk.ts';
import type { SimDisk } from './disk.ts';

/** Told about each call; may throw to refuse it or to end the process. */
export interface LogHooks {
  /** A segment is to be made; throws when there is no room. */
  beforeCreate(): void;
  beforeWrite(): void;
  /** Written into the page cache. */
  afterWrite(segment: SimSegment): void;
  beforeSync(): void;
  /** Usually does `work` at once: it puts what was written on the platter. */
  sync(work: () => void): void;
  afterSync(): void;
  /** A segment is made in the background: `make` it, and `done` comes later if the process lives. */
  later(make: () => SegmentFile, done: (file: SegmentFile | undefined) => void): void;
}

export class SimFolder implements LogFolder {
  readonly #disk: SimDisk;
  readonly #hooks: LogHooks;

  constructor(disk: SimDisk, hooks: LogHooks) {
    this.#disk = disk;
    this.#hooks = hooks;
  }

  names(): string[] {
    return this.#disk.logs.segments.map(({ name }) => name);
  }

  open(name: string): SegmentFile {
    return new SimFile(this.#disk.logs.get(name), this.#hooks);
  }

  create(name: string, bytes: number, log: bigint): SegmentFile {
    this.#hooks.beforeCreate();
    return new SimFile(this.#disk.logs.create(name, freshBytes(log, bytes)), this.#hooks);
  }

  createAhead(name: string, bytes: number, log: bigint): Promise<SegmentFile | undefined> {
    const make = (): SegmentFile => this.create(name, bytes, log);
    // Callbacks of the language's promises would wait until the whole run is over; the store only calls then().
    // oxlint-disable-next-line unicorn/no-thenable
    const eventual = { then: (done: (file: SegmentFile | undefined) => void) => this.#hooks.later(make, done) };
    return eventual as unknown as Promise<SegmentFile | undefined>;
  }

  remove(name: string): void {
    this.#disk.logs.remove(name);
  }

  setAside(): string {
    this.#disk.logs.setAside();
    return 'log.damaged';
  }
}

class SimFile implements SegmentFile {
  readonly name: string;
  readonly bytes: number;
  readonly #segment: SimSegment;
  readonly #hooks: LogHooks;

  constructor(segment: SimSegment, hooks: LogHooks) {
    this.name = segment.name;
    this.bytes = segment.content.length;
    this.#segment = segment;
    this.#hooks = hooks;
  }

  read(at: number, bytes: number): Uint8Array {
    if (at + bytes > this.bytes) throw new Error(`${this.name} ends before ${at + bytes}`);
    return this.#segment.content.slice(at, at + bytes);
  }

  write(at: number, bytes: Uint8Array): void {
    if (at + bytes.length > this.bytes) throw new Error(`${this.name} does not grow to ${at + bytes.length}`);
    this.#hooks.beforeWrite();
    this.#segment.write(at, bytes);
    this.#hooks.afterWrite(this.#segment);
  }

  sync(): void {
    this.#hooks.beforeSync();
    this.#hooks.sync(() => this.#segment.sync());
    this.#hooks.afterSync();
  }

  close(): void {}
}
