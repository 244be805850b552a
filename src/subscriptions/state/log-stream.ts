/** The internal stream with the subscription log. Clients can neither name nor list it (http/routes/client-routes.ts). */
export const LOG = { bucket: '__ds', stream: 'log' } as const;
