/** The world that the parts of a simulation share. */
import type { SimColdStore } from './cold/store.ts';
import type { Checks } from './checks.ts';
import type { DiskFault } from './disk-faults.ts';
import type { Network } from './network.ts';
import type { SimNode } from './node.ts';
import type { SimOptions } from './options.ts';
import type { EventQueue } from './queue.ts';

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
  /** How every disk of the run is broken, if at all. */
  readonly diskFault: DiskFault | undefined;
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
