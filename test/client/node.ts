// A node in this process and a client of it, with which tests of the client begin.
import { after } from 'node:test';
import { type MillraceClient, connect } from '../../src/client/client.ts';
import { TestServer } from '../support/server.ts';

export interface ClientNode {
  readonly server: TestServer;
  readonly client: MillraceClient;
}

/** Both end with the tests of the file. */
export async function startNode(): Promise<ClientNode> {
  const server = new TestServer({ cores: 1, groups: 4 });
  await server.start();
  const client = connect(server.url);
  after(async () => {
    client.close();
    await server.dispose();
  });
  return { server, client };
}
