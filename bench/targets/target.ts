// A server, as the scenarios see it: how to start it, what it promises, and where it answers.

import type { Watched } from '../cpu.ts';
import type { Memory } from '../processes.ts';

export type TargetName =
  | 'millrace'
  | 'millrace-before'
  | 'millrace-token'
  | 'millrace-scoped'
  | 'millrace-jwt'
  | 'millrace-limits'
  | 'reference-file'
  | 'reference-memory'
  | 'bare'
  | 'broadcaster'
  | 'redis'
  | 'millrace-cluster'
  | 'millrace-cluster-before'
  | 'millrace-cluster-tls'
  | 'etcd'
  | 'nats';

export interface StartOptions {
  /** Parent of the server's data folder; the target makes and removes its own folder there. */
  readonly dir: string;
  /** taskset list for the server, when the run is pinned. */
  readonly cpus: string | undefined;
  /** Shard threads of millrace. */
  readonly cores: number;
  /** Flags for node itself (profiling); only millrace takes them. */
  readonly nodeArgs: readonly string[];
  /** Configuration of a single node of millrace, beside its flags. */
  readonly config?: string;
  /** Requests need it with that configuration. */
  readonly token?: string;
  /** Prefix of the commands of a cluster's nodes. */
  readonly wrapper?: readonly [file: string, ...args: string[]];
  /** The compiled entry point of millrace. */
  readonly entry: string;
  /** The same of the build that millrace-before runs; without it those targets do not exist. */
  readonly before: string | undefined;
}

export interface Target<R extends Running = Running> {
  readonly name: TargetName;
  /** The meaning of an acknowledgement, printed with the figures: a rate without it says nothing. */
  readonly durability: string;
  /** It runs `StartOptions.before`, and only when there is one. */
  readonly isBefore?: true;
  /** Only when it is asked for by name. */
  readonly isExtra?: true;
  /** Why the target cannot run here, in one line that says what to do; undefined when it can. */
  missing(options: StartOptions): string | undefined;
  start(options: StartOptions): Promise<R>;
}

export interface Running {
  readonly name: TargetName;
  readonly port: number;
  readonly protocol: 'http' | 'redis' | 'etcd' | 'nats';
  /** Bearer token that requests need; undefined: none. */
  readonly token?: string | undefined;
  /** Processes whose processor time is counted. */
  readonly processes?: readonly Watched[];
  memory(): Memory;
  stop(): Promise<void>;
}

/** One process of a cluster. */
export interface ClusterNode {
  readonly port: number;
  readonly adminPort: number;
  readonly pid: number;
}

/** Several nodes that act as one; `port` is the first one's. */
export interface RunningCluster extends Running {
  readonly nodes: readonly ClusterNode[];
}

/** All HTTP targets are addressed alike: the flat route of millrace, which the reference server takes too. */
export function streamPath(name: string): string {
  return `/v1/stream/${name}`;
}
