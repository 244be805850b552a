// The reference server of the protocol, @durable-streams/server, in its two storage modes.

import { createRequire } from 'node:module';
import { siblingModule } from '../paths.ts';
import { memoryOf, startChild, temporaryFolder, waitForPort } from '../processes.ts';
import { freePort } from '../../test/support/ports.ts';
import type { Running, StartOptions, Target } from './target.ts';

const require = createRequire(import.meta.url);

function missing(): string | undefined {
  try {
    require.resolve('@durable-streams/server');
    return undefined;
  } catch {
    return '@durable-streams/server is not installed: npm ci';
  }
}

function referenceTarget(name: 'reference-file' | 'reference-memory', durability: string): Target {
  const start = async (options: StartOptions): Promise<Running> => {
    const folder = name === 'reference-file' ? temporaryFolder(options.dir, name) : undefined;
    const port = await freePort();
    const script = siblingModule(import.meta.url, 'reference-server');
    const args = [script, String(port), ...(folder === undefined ? [] : [folder])];
    const child = startChild(process.execPath, args, options.cpus);
    await waitForPort(child, port, name);
    return {
      name,
      port,
      protocol: 'http',
      memory: () => memoryOf(child.pid),
      stop: () => child.stop(),
    };
  };
  return { name, durability, missing, start };
}

export const referenceFile: Target = referenceTarget('reference-file', 'fdatasync per append on a file per stream');
export const referenceMemory: Target = referenceTarget('reference-memory', 'none: memory only');
