// How tests reach the test's own S3 server.
import type { S3Options } from '../../../src/cold/store/s3-store.ts';
import type { Ceph } from '../../support/ceph.ts';

export function s3Options(ceph: Ceph, changes: Partial<S3Options> = {}): S3Options {
  return {
    bucket: 'cold',
    region: undefined,
    endpoint: ceph.endpoint,
    pathStyle: true,
    credentials: { accessKeyId: ceph.accessKey, secretAccessKey: ceph.secretKey, sessionToken: undefined },
    encryption: 'none',
    kmsKeyId: undefined,
    timeoutMs: 10_000,
    maxRetries: 3,
    connections: 32,
    ...changes,
  };
}
