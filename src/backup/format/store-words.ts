/** Explains errors of S3 and its client to operators: what to fix, and the error code. Pure. */

/** The first match is used. */
const WORDS: readonly (readonly [RegExp, string])[] = [
  [/NoSuchBucket/, 'there is no such bucket'],
  [
    /CredentialsProviderError/,
    'there are no credentials; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE',
  ],
  [/Region is missing/, 'there is no region; set AWS_REGION'],
  [/ERR_INVALID_URL/, 'AWS_ENDPOINT_URL_S3 is not an address'],
  [/ExpiredToken|TokenRefreshRequired/, 'the credentials have expired'],
  [/SignatureDoesNotMatch|InvalidAccessKeyId|InvalidToken/, 'the store does not know these credentials'],
  [/AccessDenied|\b403\b/, 'these credentials are not allowed to do that'],
  [
    /PermanentRedirect|AuthorizationHeaderMalformed|IncorrectEndpoint|\b301\b/,
    'the bucket is in another region; set AWS_REGION',
  ],
  [/ECONNREFUSED|ENOTFOUND|EAI_AGAIN|EHOSTUNREACH|ENETUNREACH|ETIMEDOUT/, 'the store cannot be reached'],
];

/** `message` is that of a StoreError, which may begin with the name of an object. */
export function inWords(message: string): string {
  const plain = message.replace(/^: /, '');
  const words = WORDS.find(([pattern]) => pattern.test(plain))?.[1];
  return words === undefined ? plain : `${words} (${plain})`;
}
