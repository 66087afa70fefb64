import { existsSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { output, root } from '../lib/processes.ts'
import type { Peer } from './peer.ts'

const version = '1.80.11'
const venv = join(root, 'bench/peers/litellm/venv')
const program = join(venv, 'bin/litellm')
const masterKey = 'sk-bench'

/**
 * LiteLLM's proxy, from PyPI, with its settings for production and one process. It computes the cost of each request; it has a master
 * key and no database, so no keys, limits, budgets or log.
 */
export const litellm: Peer = {
  async install() {
    if (existsSync(program)) return
    console.error('installing the peer litellm')
    await output(['python3', '-m', 'venv', venv])
    await output([
      join(venv, 'bin/pip'),
      'install',
      '--quiet',
      '--disable-pip-version-check',
      `litellm[proxy]==${version}`,
    ])
  },
  async launch({ port, upstreamUrl, models, folder }) {
    const config = join(folder, 'litellm.json') // JSON is YAML.
    const params = (model: string) => ({
      model: `openai/${model}`,
      api_base: `${upstreamUrl}/v1`,
      api_key: 'upstream',
      input_cost_per_token: 1.5e-7,
      output_cost_per_token: 6e-7,
    })
    const settings = {
      model_list: models.map(model => ({ model_name: model, litellm_params: params(model) })),
      general_settings: { master_key: masterKey },
      litellm_settings: {
        set_verbose: false,
        json_logs: true,
        request_timeout: 600,
        drop_params: true,
        telemetry: false,
      },
    }
    await writeFile(config, JSON.stringify(settings))
    return {
      command: [program, '--config', config, '--host', '127.0.0.1', '--port', String(port), '--num_workers', '1'],
      env: { ...process.env, LITELLM_LOG: 'ERROR', LITELLM_MODE: 'PRODUCTION', LITELLM_LOCAL_MODEL_COST_MAP: 'True' },
      headers: [`authorization: Bearer ${masterKey}`],
      readyPath: '/health/liveliness',
    }
  },
}

/** The folder of its package, if it is installed. */
export async function litellmPackage(): Promise<string | null> {
  if (!existsSync(program)) return null
  const where = 'import importlib.util; print(importlib.util.find_spec("litellm").submodule_search_locations[0])'
  return (await output([join(venv, 'bin/python'), '-c', where])).trim()
}
