/**
 * Amazon's SDK, loaded the way that its packages are written. An import of theirs takes twice as long in Node 20, which
 * then looks for the exports of each file, and every thread that opens a store loads all of them.
 */
import type * as ClientS3 from '@aws-sdk/client-s3';
import type * as LibStorage from '@aws-sdk/lib-storage';
import { createRequire } from 'node:module';

const require = createRequire(import.meta.url);

export const s3: typeof ClientS3 = require('@aws-sdk/client-s3');
export const storage: typeof LibStorage = require('@aws-sdk/lib-storage');
