/** The parts of the document that describe the API as a whole. */
import type { DocumentedPlane } from '../../src/http/api-document.ts';

type Json = Readonly<Record<string, unknown>>;

export const INFO: Json = {
  title: 'Millrace',
  summary: 'Append-only byte streams over HTTP.',
  license: { name: 'MIT', identifier: 'MIT' },
  description: [
    'A node has two planes: the client plane serves streams and subscriptions, the admin plane serves operators.',
    'The prefix `/__svc/` is reserved for the service, and so are all names of buckets and streams that begin with `__`.',
    'Every refusal has its code in `Millrace-Error`, which is what programs match, and says in one sentence what to change.',
    'It also has `X-Request-Id`, which is what the request was sent with when that is well formed, and which log lines of the node repeat.',
    'A refusal that may succeed when it is repeated has `Retry-After`.',
    'A method that a path does not have is refused with 405 and `Allow`; an unknown path of the service with 404.',
    'On the client plane `OPTIONS` answers 204 with `Allow`. HTTP/1.0 and targets with a scheme are refused with 505, large heads with 431.',
    'Unknown query parameters are ignored. What fails because of a bug is answered with 500 `INTERNAL`.',
  ].join('\n'),
};

function server(description: string, port: string): Json {
  return {
    url: 'http://{host}:{port}',
    description,
    variables: { host: { default: '127.0.0.1' }, port: { default: port } },
  };
}

export const SERVERS: Readonly<Record<DocumentedPlane, Json>> = {
  client: server('The client plane.', '4437'),
  admin: server('The admin plane.', '4438'),
};

const bearer = (description: string): Json => ({ type: 'http', scheme: 'bearer', description });

export const SECURITY_SCHEMES: Json = {
  clientToken: bearer('The token of the client plane, if `http.client_token` sets one.'),
  adminToken: bearer('The token of the admin plane, if `http.admin_token` sets one.'),
  urlToken: {
    ...{ type: 'apiKey', in: 'query', name: 'access_token' },
    description: 'A token that `POST /__svc/tokens` made for URLs.',
  },
  wakeToken: bearer('The token that came with the wake.'),
};

export const WEBHOOKS: Json = {
  wake: {
    post: {
      operationId: 'wake',
      tags: ['subscriptions'],
      summary: 'Events are pending behind a subscription.',
      // The receiver verifies the signature.
      security: [],
      description:
        'A receiver answers 2xx when it takes the wake, and `{"done":true}` when it is done with all of it. Otherwise it calls back. Any other answer is a failure, and the wake comes again.',
      parameters: [
        {
          name: 'Webhook-Signature',
          in: 'header',
          required: true,
          description:
            '`t=SECONDS,kid=KEY,ed25519=SIGNATURE`: the signature of `SECONDS.BODY` in base64url, by a key of `/v1/stream/__ds/jwks.json`.',
          schema: { type: 'string' },
          example: 't=1795428000,kid=Yw2L1x,ed25519=3q2-7w',
        },
      ],
      requestBody: {
        required: true,
        content: { 'application/json': { schema: { $ref: '#/components/schemas/Wake' } } },
      },
      responses: {
        '2XX': {
          description: 'The wake is taken.',
          content: { 'application/json': { schema: { type: 'object', properties: { done: { type: 'boolean' } } } } },
        },
      },
    },
  },
};
