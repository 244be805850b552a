/** What the parts of a simulation share. */
import type { Reply } from '../../src/protocol/reply.ts';
import type { SimColdStore } from './cold/store.ts';
import type { Checks } from './checks.ts';
import type { SimDisk } from './disk.ts';
import type { Network } from './network.ts';
import type { SimNode } from './node.ts';
import type { SimOptions } from './options.ts';
import type { SimProcess, SimStore } from './process.ts';
import type { EventQueue } from './queue.ts';

/** A planted bug: where it gets its fingers in. */
export interface Mutation {
  /** Instead of SimDisk.sync at the end of a commit. */
  readonly sync?: (disk: SimDisk, process: SimProcess) => void;
  /** The disk leaves rows with this tag out of group snapshots. */
  readonly hiddenTag?: number;
  /** A new process has opened its store and nothing else yet. */
  readonly onStore?: (store: SimStore, process: SimProcess) => void;
  /** A new process is put together and not started. */
  readonly onProcess?: (process: SimProcess) => void;
  /** Before an answer leaves for the client. */
  readonly onReply?: (reply: Reply) => void;
  /** Takes effect in every process for the length of the run; what it returns takes it back. */
  readonly install?: () => () => void;
}

/** A property that does not hold. */
export class SimFailure extends Error {}

export interface World {
  readonly options: SimOptions;
  readonly queue: EventQueue;
  readonly network: Network;
  readonly nodes: readonly SimNode[];
  readonly checks: Checks;
  /** Undefined: everything stays on the nodes. */
  readonly cold: SimColdStore | undefined;
  readonly mutation: Mutation | undefined;
  /** The safety phase lasts: faults may happen. */
  readonly faulty: boolean;
  /** Only what clients see is checked. */
  readonly blind: boolean;
  /** A process has started on the node. */
  started(node: SimNode): void;
  trace(line: string): void;
  /** To be thrown. */
  failure(what: string, cause?: unknown): SimFailure;
}
