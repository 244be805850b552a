/** Which store to use, as plain data that can be sent to a thread. */
import { DirStore } from './dir-store.ts';
import type { S3Options } from './s3-store.ts';
import type { ObjectStore } from './store.ts';

export type Backend =
  | { readonly kind: 'dir'; readonly root: string; readonly directory: string }
  | { readonly kind: 's3'; readonly root: string; readonly s3: S3Options };

/** The SDK is loaded only where it is used: it costs 60 MB and half a second. */
export async function openStore(backend: Backend): Promise<ObjectStore> {
  if (backend.kind === 'dir') return new DirStore(backend.directory, backend.root);
  const { S3Store } = await import('./s3-store.ts');
  return new S3Store(backend.s3, backend.root);
}
