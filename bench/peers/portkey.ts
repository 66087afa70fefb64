import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { output, root } from '../lib/processes.ts'
import type { Peer } from './peer.ts'

const folder = join(root, 'bench/peers/portkey')
const server = join(folder, 'node_modules/@portkey-ai/gateway/build/start-server.js')

/** Portkey's gateway, from npm. It has no keys, limits, money or log: the request says which provider it is for. */
export const portkey: Peer = {
  async install() {
    if (existsSync(server)) return
    console.error('installing the peer portkey')
    await output(['npm', 'install', '--prefix', folder, '--no-package-lock', '--no-audit', '--no-fund'])
  },
  launch: async ({ port, upstreamUrl }) => ({
    command: [process.execPath, server, '--headless', `--port=${port}`],
    env: { ...process.env, NODE_ENV: 'production' },
    headers: [
      'authorization: Bearer upstream',
      'x-portkey-provider: openai',
      `x-portkey-custom-host: ${upstreamUrl}/v1`,
    ],
  }),
}
