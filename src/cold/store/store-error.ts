/** Failures of an object store. */

/**
 * Why an operation failed.
 *   missing      there is no such object
 *   denied       the store refuses: credentials, permission, bucket, region, encryption; repeating is useless
 *   unreachable  no answer, or one that says "later"; the outcome of a put is unknown
 *   bad          the object is there but is not what was written: too short, or altered
 */
export type StoreFailure = 'missing' | 'denied' | 'unreachable' | 'bad';

export class StoreError extends Error {
  readonly failure: StoreFailure;

  constructor(failure: StoreFailure, message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'StoreError';
    this.failure = failure;
  }
}
