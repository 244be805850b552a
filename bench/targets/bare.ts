// The ceilings: uWebSockets.js that stores nothing (appends) and one that only repeats (fan-out). What they reach is
// what the HTTP layer and this machine's loopback allow; the distance to them is the price of our durability.

import { siblingModule } from '../paths.ts';
import { memoryOf, startChild, waitForPort } from '../processes.ts';
import { freePort } from '../../test/support/ports.ts';
import { loadUws } from '../../src/http/uws.ts';
import type { Running, StartOptions, Target } from './target.ts';

function missing(): string | undefined {
  try {
    loadUws();
    return undefined;
  } catch (error) {
    return String(error);
  }
}

function bareTarget(name: 'bare' | 'broadcaster', durability: string): Target {
  const start = async (options: StartOptions): Promise<Running> => {
    const port = await freePort();
    const child = startChild(
      process.execPath,
      [siblingModule(import.meta.url, `${name}-server`), String(port)],
      options.cpus,
    );
    await waitForPort(child, port, name);
    const processes = [{ pid: child.pid, shardThreads: 0 }];
    return { name, port, protocol: 'http', processes, memory: () => memoryOf(child.pid), stop: () => child.stop() };
  };
  return { name, durability, missing, start };
}

export const bare: Target = bareTarget(
  'bare',
  'none: reads the body, answers 204, stores nothing (reads: one constant buffer)',
);
export const broadcaster: Target = bareTarget('broadcaster', 'none: writes each body to every reader');
