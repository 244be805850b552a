// Cold stores that servers under test use and that the test looks into behind their backs: a directory, or a bucket of
// a real S3 server. All nodes of a cluster may share one.
import {
  DeleteObjectCommand,
  GetObjectCommand,
  ListObjectsV2Command,
  PutObjectCommand,
  type S3Client,
} from '@aws-sdk/client-s3';
import { Buffer } from 'node:buffer';
import { mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { Ceph, cephMissing } from './ceph.ts';
import { removeFolder, temporaryFolder } from './server.ts';

/** Where the servers' objects lie within the directory or bucket. */
export const STORE_ROOT = 'millrace/tests';
const BUCKET = 'cold';

/** A listing is over in milliseconds; a server that removes folders meanwhile does not do so every time. */
const LISTINGS_MAX = 100;

/**
 * Paths of the objects in a directory that servers use. They remove empty folders,
 * which the listing may be about to read.
 */
export function objectsIn(folder: string): string[] {
  for (let attempt = 1; ; attempt++) {
    try {
      return (
        readdirSync(folder, { recursive: true, withFileTypes: true })
          // The temporary file of a killed process stays for an hour.
          .filter((entry) => entry.isFile() && !entry.parentPath.endsWith('.tmp'))
          .map((entry) => join(entry.parentPath, entry.name))
          .sort()
      );
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT' || attempt === LISTINGS_MAX) throw error;
    }
  }
}

export interface ColdStore {
  readonly name: string;
  /** Members of `[storage.cold]` that say where the store is; more may follow. */
  readonly toml: string;
  /** Keys of all objects, also those that are not the servers'. */
  keys(): Promise<string[]>;
  get(key: string): Promise<Buffer>;
  put(key: string, body: Uint8Array): Promise<void>;
  remove(key: string): Promise<void>;
  stop(): Promise<void>;
}

export class DirectoryStore implements ColdStore {
  readonly name = 'directory';
  readonly folder: string;

  constructor() {
    this.folder = temporaryFolder('cold-store');
  }

  get toml(): string {
    return `[storage.cold]\nbackend = "dir"\ndir = "${this.folder}"\nroot = "${STORE_ROOT}"\n`;
  }

  keys(): Promise<string[]> {
    return Promise.resolve(objectsIn(this.folder).map((path) => relative(this.folder, path)));
  }

  get(key: string): Promise<Buffer> {
    return Promise.resolve(readFileSync(join(this.folder, key)));
  }

  put(key: string, body: Uint8Array): Promise<void> {
    mkdirSync(dirname(join(this.folder, key)), { recursive: true });
    writeFileSync(join(this.folder, key), body);
    return Promise.resolve();
  }

  remove(key: string): Promise<void> {
    rmSync(join(this.folder, key));
    return Promise.resolve();
  }

  stop(): Promise<void> {
    removeFolder(this.folder);
    return Promise.resolve();
  }
}

export class S3TestStore implements ColdStore {
  readonly name = 'S3 (Ceph)';
  readonly ceph: Ceph;
  readonly #client: S3Client;

  private constructor(ceph: Ceph) {
    this.ceph = ceph;
    this.#client = ceph.client();
  }

  static async start(): Promise<S3TestStore> {
    return new S3TestStore(await Ceph.start({ bucket: BUCKET }));
  }

  get toml(): string {
    return this.ceph.coldToml(BUCKET, STORE_ROOT);
  }

  async keys(): Promise<string[]> {
    const keys: string[] = [];
    let token: string | undefined;
    do {
      const command = new ListObjectsV2Command({ Bucket: BUCKET, ContinuationToken: token });
      const page = await this.#client.send(command);
      for (const { Key } of page.Contents ?? []) keys.push(Key as string);
      token = page.NextContinuationToken;
    } while (token !== undefined);
    return keys;
  }

  async get(key: string): Promise<Buffer> {
    const { Body } = await this.#client.send(new GetObjectCommand({ Bucket: BUCKET, Key: key }));
    return Buffer.from((await Body?.transformToByteArray()) ?? []);
  }

  async put(key: string, body: Uint8Array): Promise<void> {
    await this.#client.send(new PutObjectCommand({ Bucket: BUCKET, Key: key, Body: body }));
  }

  async remove(key: string): Promise<void> {
    await this.#client.send(new DeleteObjectCommand({ Bucket: BUCKET, Key: key }));
  }

  async stop(): Promise<void> {
    this.#client.destroy();
    await this.ceph.stop();
  }
}

/** Why this kind of store cannot be had here, and how to start one. */
export interface StoreKind {
  readonly name: string;
  readonly skip: string | undefined;
  start(): Promise<ColdStore>;
}

export const STORE_KINDS: readonly StoreKind[] = [
  { name: 'directory', skip: undefined, start: () => Promise.resolve(new DirectoryStore()) },
  { name: 'S3 (Ceph)', skip: cephMissing(), start: () => S3TestStore.start() },
];
