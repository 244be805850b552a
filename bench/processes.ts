// Children, ports and folders of a benchmark run. However the run ends (done, exception, Ctrl-C), no server survives it
// and no temporary folder stays behind.

import { spawn, type ChildProcess } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, readdirSync, rmSync } from 'node:fs';
import { connect } from 'node:net';
import { delimiter, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

/** A server that does not listen by then is broken; a million streams on disk open in a second or two. */
const START_TIMEOUT_MS = 60_000;
/** Graceful stop, profiles written included; then SIGKILL. */
const STOP_TIMEOUT_MS = 15_000;
/** Only the end of a child's output is kept, for the message when it dies. */
const OUTPUT_TAIL_CHARS = 4_000;

const children = new Set<ChildProcess>();
const folders = new Set<string>();

function cleanUp(): void {
  for (const child of children) child.kill('SIGKILL');
  for (const folder of folders) rmSync(folder, { recursive: true, force: true });
}
process.on('exit', cleanUp);
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => process.exit(130));

export interface Child {
  readonly process: ChildProcess;
  readonly pid: number;
  readonly exited: Promise<number>;
  /** It has exited and all that it wrote has been read. */
  readonly closed: Promise<unknown>;
  /** The last lines it wrote to stdout and stderr. */
  output(): string;
  stop(): Promise<void>;
  /** Without a goodbye: for rivals whose data is thrown away and whose graceful end takes seconds. */
  kill(): Promise<void>;
}

/** Starts a child; `cpus` (taskset list) pins it. taskset execs, so the pid is the server's own. */
export function startChild(command: string, args: readonly string[], cpus?: string, ipc = false): Child {
  const [file, argv] = cpus === undefined ? [command, args] : ['taskset', ['-c', cpus, command, ...args]];
  const stdio = ['ignore', 'pipe', 'pipe', ...(ipc ? ['ipc' as const] : [])] as const;
  const child = spawn(file, [...argv], { stdio: [...stdio] });
  children.add(child);
  let tail = '';
  const keep = (chunk: Buffer): void => {
    tail = (tail + chunk.toString('utf8')).slice(-OUTPUT_TAIL_CHARS);
  };
  child.stdout?.on('data', keep);
  child.stderr?.on('data', keep);
  const exited = new Promise<number>((resolve) => {
    child.once('error', (error) => {
      tail += String(error);
      children.delete(child);
      resolve(-1);
    });
    child.once('exit', (code) => {
      children.delete(child);
      resolve(code ?? -1);
    });
  });
  const closed = new Promise((resolve) => {
    child.once('close', resolve);
    child.once('error', resolve);
  });
  const stop = async (): Promise<void> => {
    if (child.exitCode !== null || child.signalCode !== null) return;
    child.kill('SIGTERM');
    const timer = setTimeout(() => child.kill('SIGKILL'), STOP_TIMEOUT_MS);
    await exited;
    clearTimeout(timer);
  };
  const kill = async (): Promise<void> => {
    if (child.exitCode === null && child.signalCode === null) child.kill('SIGKILL');
    await exited;
  };
  return { process: child, pid: child.pid ?? -1, exited, closed, output: () => tail, stop, kill };
}

function canConnect(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1');
    socket.once('connect', () => {
      socket.destroy();
      resolve(true);
    });
    socket.once('error', () => resolve(false));
  });
}

/** Resolves when the port accepts connections. Asked by connecting, so it holds for servers that print nothing. */
export async function waitForPort(child: Child, port: number, name: string): Promise<void> {
  let dead = false;
  void child.exited.then(() => (dead = true));
  const deadline = Date.now() + START_TIMEOUT_MS;
  while (!(await canConnect(port))) {
    if (dead) throw new Error(`${name} ended before it listened: ${child.output().trim() || 'no output'}`);
    if (Date.now() > deadline) throw new Error(`${name} does not listen after ${START_TIMEOUT_MS} ms`);
    await sleep(20);
  }
}

/**
 * Goes when the run ends and not before: on a disk mounted with `discard` a removal stalls the
 * flushes of whatever is measured next for up to a second.
 */
export function temporaryFolder(parent: string, prefix: string): string {
  const folder = mkdtempSync(join(parent, `millrace-bench-${prefix}-`));
  folders.add(folder);
  return folder;
}

/** At once: for what would fill the disk, like backups. */
export function removeFolder(folder: string): void {
  rmSync(folder, { recursive: true, force: true });
  folders.delete(folder);
}

export interface Memory {
  /** All resident pages, those of mapped files (LMDB) included. */
  readonly residentMiB: number;
  /** Heap, stacks and buffers: what the kernel cannot drop under pressure. */
  readonly anonymousMiB: number;
}

/** From /proc, so of the process itself and not of what it believes about itself. NaN where there is no /proc. */
export function memoryOf(pid: number): Memory {
  const path = `/proc/${pid}/status`;
  const status = existsSync(path) ? readFileSync(path, 'utf8') : '';
  const field = (name: string): number => Number(new RegExp(`^${name}:\\s+(\\d+) kB`, 'm').exec(status)?.[1]) / 1024;
  return { residentMiB: field('VmRSS'), anonymousMiB: field('RssAnon') };
}

/** The kernel counts processor time in ticks of this length (USER_HZ, part of its interface). */
const TICK_MS = 10;

/** Processor time of all threads since the start, user and system; NaN where there is no /proc. */
export function cpuMsOf(pid: number): number {
  const path = `/proc/${pid}/stat`;
  return existsSync(path) ? cpuMsIn(readFileSync(path, 'utf8')) : Number.NaN;
}

/**
 * The same of each thread that lives, by its id; the main thread's is the process'. In nanoseconds where the kernel
 * says them.
 */
export function cpuMsOfThreads(pid: number): Map<number, number> {
  const threads = new Map<number, number>();
  const folder = `/proc/${pid}/task`;
  for (const thread of existsSync(folder) ? readdirSync(folder) : []) {
    try {
      const exact = `${folder}/${thread}/schedstat`;
      const ms = existsSync(exact)
        ? Number(readFileSync(exact, 'utf8').split(' ')[0]) / 1e6
        : cpuMsIn(readFileSync(`${folder}/${thread}/stat`, 'utf8'));
      threads.set(Number(thread), ms);
    } catch {
      // It has ended meanwhile.
    }
  }
  return threads;
}

function cpuMsIn(text: string): number {
  // The second field is the program's name in parentheses and may hold spaces; the third is fields[0] here.
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
  return (Number(fields[11]) + Number(fields[12])) * TICK_MS;
}

export function isInstalled(program: string): boolean {
  return (process.env['PATH'] ?? '').split(delimiter).some((folder) => existsSync(join(folder, program)));
}
