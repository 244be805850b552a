// Segment files in memory, and a hook before each call that reaches the disk: it may throw what the system would say.
import { freshBytes } from '../../src/store/log-record.ts';
import type { SegmentFile, LogFolder } from '../../src/store/log-files.ts';

type Call = 'create' | 'write' | 'sync';

/** The system's error when there is no room. */
export const NO_ROOM = Object.assign(new Error('ENOSPC: no space left on device'), { code: 'ENOSPC' });

export class MemoryFolder implements LogFolder {
  readonly files = new Map<string, Uint8Array>();
  before: (call: Call) => void = () => undefined;

  names(): string[] {
    return [...this.files.keys()];
  }

  open(name: string): SegmentFile {
    const content = this.files.get(name);
    if (content === undefined) throw new Error(`${name} is there`);
    return {
      name,
      bytes: content.length,
      read: (at, bytes) => content.slice(at, at + bytes),
      write: (at, bytes) => {
        this.before('write');
        content.set(bytes, at);
      },
      sync: () => this.before('sync'),
      close: () => undefined,
    };
  }

  create(name: string, bytes: number, log: bigint): SegmentFile {
    this.before('create');
    this.files.set(name, freshBytes(log, bytes));
    return this.open(name);
  }

  async createAhead(name: string, bytes: number, log: bigint): Promise<SegmentFile | Error | undefined> {
    await Promise.resolve();
    try {
      return this.create(name, bytes, log);
    } catch {
      return undefined;
    }
  }

  remove(name: string): void {
    this.files.delete(name);
  }

  setAside(): string {
    this.files.clear();
    return 'log.damaged';
  }
}
