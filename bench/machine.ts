// The line that makes figures comparable: what they were measured on.

import { statfsSync } from 'node:fs';
import { cpus, release, totalmem } from 'node:os';

/** Magic numbers of statfs(2) that matter here: on tmpfs an fsync costs nothing, so durable figures would be wrong. */
const FILE_SYSTEMS: Readonly<Record<number, string>> = {
  0xef53: 'ext4',
  0x01021994: 'tmpfs',
  0x9123683e: 'btrfs',
  0x58465342: 'xfs',
  0x794c7630: 'overlay',
  0x2fc12fc1: 'zfs',
};

export interface Machine {
  readonly cpu: string;
  readonly cores: number;
  readonly memoryGiB: number;
  readonly node: string;
  readonly kernel: string;
  readonly fileSystem: string;
}

export function fileSystemOf(dir: string): string {
  const { type } = statfsSync(dir);
  return FILE_SYSTEMS[type] ?? `0x${type.toString(16)}`;
}

export function describeMachine(dataDir: string): Machine {
  const all = cpus();
  return {
    cpu: all[0]?.model.trim() ?? 'unknown cpu',
    cores: all.length,
    memoryGiB: Math.round(totalmem() / 2 ** 30),
    node: process.version,
    kernel: release(),
    fileSystem: fileSystemOf(dataDir),
  };
}

export function machineLine(machine: Machine): string {
  return (
    `machine: ${machine.cpu}, ${machine.cores} cores, ${machine.memoryGiB} GiB, node ${machine.node}, ` +
    `kernel ${machine.kernel}, data on ${machine.fileSystem}`
  );
}
