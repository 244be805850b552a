// The object stores that tests of the cold tier ask the same questions.
import { DirStore, makeDirStore } from '../../../src/cold/store/dir-store.ts';
import { S3Store } from '../../../src/cold/store/s3-store.ts';
import type { ObjectStore } from '../../../src/cold/store/store.ts';
import { Ceph, cephMissing } from '../../support/ceph.ts';
import { removeFolder, temporaryFolder } from '../../support/server.ts';
import { s3Options } from './s3.ts';

export interface Backend {
  readonly name: string;
  readonly skip: string | undefined;
  start(): Promise<void>;
  stop(): Promise<void>;
  open(root: string): Promise<ObjectStore>;
}

export function directory(): Backend {
  let folder = '';
  return {
    name: 'directory',
    skip: undefined,
    start: async () => {
      folder = temporaryFolder('cold');
      await Promise.resolve();
    },
    stop: async () => {
      removeFolder(folder);
      await Promise.resolve();
    },
    open: async (root) => {
      await makeDirStore(folder, root);
      return new DirStore(folder, root);
    },
  };
}

export function s3(): Backend {
  let ceph: Ceph | undefined;
  return {
    name: 'S3 (Ceph)',
    skip: cephMissing(),
    start: async () => {
      ceph = await Ceph.start({ bucket: 'cold' });
    },
    stop: async () => ceph?.stop(),
    open: (root) => Promise.resolve(new S3Store(s3Options(ceph as Ceph), root)),
  };
}
