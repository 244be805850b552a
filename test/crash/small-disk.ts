// A small file system for one test: a tmpfs inside a separate mount namespace, kept alive by a shell that ends with the
// test process, so nothing stays mounted. Needs root, or user namespaces.
import { closeSync, existsSync, mkdirSync, openSync, rmSync, statfsSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { removeFolder, run, temporaryFolder, within } from '../support/server.ts';
import { PATIENCE_MS } from '../support/until.ts';

/** Written again and again, because all of a disk in memory costs as much as the writing. */
const ZEROS_BYTES = 256 * 1024;

export interface SmallDisk {
  /** Where a process started through `enter` sees it. */
  readonly path: string;
  /** Where the test itself sees the whole of it. */
  readonly outside: string;
  /** Prefix for a command: runs it where the disk is visible; execs. */
  readonly enter: readonly string[];
  freeBytes(): number;
  /** Writes a file of zeros; deleting it gives the space back. */
  fill(name: string, bytes: number): void;
  remove(name: string): void;
  dispose(): Promise<void>;
}

/** Undefined when this host allows neither way; `reason` then says what was tried. */
export async function mountSmallDisk(bytes: number): Promise<{ readonly disk?: SmallDisk; readonly reason: string }> {
  const tries: { readonly unshare: string[]; readonly nsenter: string[] }[] = [
    { unshare: ['unshare', '-m'], nsenter: ['-m'] },
    { unshare: ['unshare', '-U', '-r', '-m'], nsenter: ['-U', '-m', '--preserve-credentials'] },
  ];
  const reasons: string[] = [];
  for (const { unshare, nsenter } of tries) {
    const mountPoint = temporaryFolder('disk');
    const script = `mount -t tmpfs -o size=${bytes} tmpfs ${mountPoint} && echo mounted && exec cat`;
    const holder = run([...unshare, 'sh', '-c', script]);
    const mounted = new Promise<boolean>((resolve) => {
      holder.child.stdout?.on('data', () => {
        if (holder.output().includes('mounted')) resolve(true);
      });
      void holder.exited.then(() => resolve(false));
    });
    if (!(await within(mounted, PATIENCE_MS, 'mounting a tmpfs'))) {
      reasons.push(`${unshare.join(' ')}: ${holder.output().trim()}`);
      removeFolder(mountPoint);
      continue;
    }
    const pid = holder.child.pid as number;
    const outside = join(`/proc/${pid}/root`, mountPoint);
    mkdirSync(join(outside, 'data'));
    const zeros = new Uint8Array(ZEROS_BYTES);
    const disk: SmallDisk = {
      path: join(mountPoint, 'data'),
      outside,
      enter: ['nsenter', '-t', String(pid), ...nsenter],
      freeBytes: () => {
        const { bavail, bsize } = statfsSync(outside);
        return bavail * bsize;
      },
      fill: (name, size) => {
        const file = openSync(join(outside, name), 'w');
        try {
          for (let left = size; left > 0;) left -= writeSync(file, zeros, 0, Math.min(left, zeros.length));
        } finally {
          closeSync(file);
        }
      },
      remove: (name) => {
        if (existsSync(join(outside, name))) rmSync(join(outside, name));
      },
      dispose: async () => {
        holder.child.stdin?.end();
        await holder.exited;
        removeFolder(mountPoint);
      },
    };
    return { disk, reason: '' };
  }
  return { reason: `no small file system can be mounted here; tried ${reasons.join('; ')}` };
}
