/** Classifies answers of an S3 store and errors of the SDK for the cold tier. */
import { StoreError, type StoreFailure } from './store-error.ts';

/** The members of the SDK's errors that are read; all may be absent. */
interface SdkError {
  readonly name?: string;
  readonly message?: string;
  readonly code?: string;
  readonly Code?: string;
  readonly $metadata?: { readonly httpStatusCode?: number };
}

/** Statuses that may change on a retry. */
const LATER = new Set([408, 409, 425, 429]);
const NOT_IMPLEMENTED = 501;

export function toStoreError(what: string, error: unknown): StoreError {
  if (error instanceof StoreError) return error;
  const {
    name = '',
    message = '',
    code,
    $metadata,
  }: SdkError = typeof error === 'object' && error !== null ? error : {};
  const status = $metadata?.httpStatusCode;
  const failure = failureOf(name, message, status);
  if (failure === 'missing') return new StoreError(failure, `${what}: there is no such object`, { cause: error });
  // A store's XML names the problem; connection errors have a code, and AggregateError (several addresses) only that.
  const reason = [name === 'Error' ? '' : name, code ?? '', message]
    .filter((part, i, all) => part !== '' && part !== 'UnknownError' && all.indexOf(part) === i)
    .join(': ');
  return new StoreError(failure, `${what}: ${status === undefined ? '' : `${status} `}${reason}`, { cause: error });
}

function failureOf(name: string, message: string, status: number | undefined): StoreFailure {
  if (name === 'NoSuchBucket' || name === 'CredentialsProviderError') return 'denied';
  if (name === 'NoSuchKey' || name === 'NotFound') return 'missing';
  // The range starts after the end of the object.
  if (name === 'InvalidRange' || status === 416) return 'bad';
  if (status === undefined) return message === 'Region is missing' ? 'denied' : 'unreachable';
  if (status === 404) return 'missing';
  if (LATER.has(status) || (status >= 500 && status !== NOT_IMPLEMENTED)) return 'unreachable';
  return status >= 300 ? 'denied' : 'unreachable';
}
