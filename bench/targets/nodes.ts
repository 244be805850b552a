// Three processes that act as one target: started together, ended together, the data of all in one temporary folder.

import { join } from 'node:path';
import { memoryOf, startChild, temporaryFolder, waitForPort, type Child, type Memory } from '../processes.ts';
import { freePorts } from '../../test/support/ports.ts';
import type { RunningCluster, StartOptions } from './target.ts';

/** The smallest cluster that survives the loss of a node, and the one that every rival recommends. */
export const NODES = 3;

export interface NodePlace {
  /** From 1. */
  readonly id: number;
  /** A separate one, which does not exist yet. */
  readonly dir: string;
  /** Where clients, operators and the other nodes connect. */
  readonly port: number;
  readonly adminPort: number;
  readonly clusterPort: number;
}

export interface Program {
  readonly name: RunningCluster['name'];
  readonly protocol: RunningCluster['protocol'];
  /** How it ends: a rival's data is thrown away, and its graceful end would only cost time. */
  readonly end: 'stop' | 'kill';
  /** Set for our own nodes: their processor time is counted. */
  readonly shardThreads?: number;
  command(place: NodePlace, all: readonly NodePlace[]): readonly [file: string, ...args: string[]];
  /** Resolves when every append is taken by every node. */
  ready(places: readonly NodePlace[]): Promise<void>;
}

export async function startNodes(program: Program, options: StartOptions): Promise<RunningCluster> {
  const folder = temporaryFolder(options.dir, program.name);
  const { shardThreads } = program;
  const first = await freePorts(NODES * 3);
  const places = Array.from({ length: NODES }, (_, index) => ({
    id: index + 1,
    dir: join(folder, `node-${index + 1}`),
    port: first + index * 3,
    adminPort: first + index * 3 + 1,
    clusterPort: first + index * 3 + 2,
  }));
  const children: Child[] = [];
  const stop = async (): Promise<void> => {
    await Promise.all(children.map((child) => child[program.end]()));
  };
  try {
    for (const place of places) {
      const [file, ...args] = [...(options.wrapper ?? []), ...program.command(place, places)] as const;
      children.push(startChild(file, args, options.cpus));
    }
    for (const [index, child] of children.entries())
      await waitForPort(child, places[index]!.port, `${program.name} ${index + 1}`);
    await Promise.race([program.ready(places), firstEnd(program.name, children)]);
  } catch (error) {
    await stop();
    throw error;
  }
  return {
    name: program.name,
    port: places[0]!.port,
    protocol: program.protocol,
    nodes: places.map(({ port, adminPort }, index) => ({ port, adminPort, pid: children[index]!.pid })),
    ...(shardThreads === undefined ? {} : { processes: children.map(({ pid }) => ({ pid, shardThreads })) }),
    memory: () => children.map(({ pid }) => memoryOf(pid)).reduce(added),
    stop,
  };
}

/** A node that dies while the others wait for it would be found only by their timeout. Never resolves. */
async function firstEnd(name: string, children: readonly Child[]): Promise<never> {
  const ended = await Promise.race(children.map((child) => child.exited.then(() => child)));
  throw new Error(`a node of ${name} ended: ${ended.output().trim() || 'no output'}`);
}

function added(a: Memory, b: Memory): Memory {
  return { residentMiB: a.residentMiB + b.residentMiB, anonymousMiB: a.anonymousMiB + b.anonymousMiB };
}
