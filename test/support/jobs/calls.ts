import type { Account, Gateway } from '../gateway.ts'
import { answerOf, audio, clip, image } from './gateway.ts'

type Call = { path?: string; key?: string; body?: unknown; headers?: Record<string, string> }
type Documented = { success: () => Call[] | Promise<Call[]>; errors: () => Call[] }

/** A valid body of every route that takes slow work on. */
export const mediaBodies = {
  '/v1/videos': async () => ({ prompt: 'A lighthouse at dusk' }),
  '/v1/lipsync': async () => ({ video_url: await clip(2), audio_url: audio(2) }),
  '/v1/face-swap': async () => ({ video_url: await clip(2), face_image_url: image, source_face_consent: true }),
  '/v1/avatars/videos': async () => ({ image_url: image, source_face_consent: true, audio_url: audio(2) }),
  '/v1/meshes': async () => ({ prompt: 'A wooden chest' }),
}
export type MediaPath = keyof typeof mediaBodies

/** What tells a body that no model takes. */
const wrong: Record<MediaPath, object> = {
  '/v1/videos': { prompt: 'x', seconds: 'five' },
  '/v1/lipsync': { audio_url: audio(1) },
  '/v1/face-swap': { video_url: image, face_image_url: image },
  '/v1/avatars/videos': { avatar_id: 'a' },
  '/v1/meshes': { image_urls: [] },
}

/** Real calls of the routes of slow work, as documented: by their names in the OpenAPI document. */
export function mediaCalls(
  world: () => { gateway: Gateway; account: Account; provisioning: string },
): Record<string, Documented> {
  const calls: Record<string, Documented> = {}
  for (const path of Object.keys(mediaBodies) as MediaPath[]) {
    const created = async () => {
      const { gateway, account } = world()
      return (await answerOf(await gateway.fetch(path, { key: account.test, body: await mediaBodies[path]() }))).id
    }
    const nobody = `${path}/${path === '/v1/meshes' ? 'mesh' : 'job'}_nobody`
    calls[`POST ${path}`] = {
      success: async () => [{ key: world().account.test, body: await mediaBodies[path]() }],
      errors: () => {
        const { account, provisioning } = world()
        return [
          { body: {} },
          { key: provisioning, body: {} },
          ...['{', {}, { colour: 1 }, wrong[path], { ...wrong[path], model: 'nope' }].map(body => ({
            key: account.test,
            body,
          })),
          { key: account.test, body: {}, headers: { 'content-type': 'text/plain' } },
        ]
      },
    }
    calls[`GET ${path}/{id}`] = {
      success: async () => [{ key: world().account.test, path: `${path}/${await created()}` }],
      errors: () => [
        { path: nobody },
        { key: world().account.test, path: nobody },
        { key: world().provisioning, path: nobody },
      ],
    }
    calls[`GET ${path}`] = {
      success: () => [{ key: world().account.test, path: `${path}?limit=2` }],
      errors: () => [{}, { key: world().account.test, path: `${path}?after=nobody` }],
    }
    calls[`DELETE ${path}/{id}`] = {
      success: async () => {
        const { gateway, account } = world()
        const id = await created()
        await gateway.fetch(`${path}/${id}/cancel`, { key: account.test, method: 'POST' })
        return [{ key: account.test, path: `${path}/${id}` }]
      },
      errors: () => [{ path: nobody }, { key: world().account.test, path: nobody }],
    }
    calls[`POST ${path}/{id}/cancel`] = {
      success: async () => [{ key: world().account.test, path: `${path}/${await created()}/cancel` }],
      errors: () => [{ path: `${nobody}/cancel` }, { key: world().account.test, path: `${nobody}/cancel` }],
    }
    const models = path === '/v1/avatars/videos' ? '/v1/avatars/models' : `${path}/models`
    calls[`GET ${models}`] = {
      success: () => [{ key: world().account.test }, { key: world().account.live }],
      errors: () => [{}, { key: world().provisioning }],
    }
  }
  for (const path of ['/v1/avatars', '/v1/avatars/voices'])
    calls[`GET ${path}`] = {
      success: () => [{ key: world().account.test }, { key: world().account.live }],
      errors: () => [{}, { key: world().account.test, path: `${path}?next_token=nonsense` }],
    }
  // A file that is there: see media-sandbox.test.ts.
  calls['GET /v1/videos/{id}/content'] = {
    success: () => [],
    errors: () => [
      { path: '/v1/videos/job_nobody/content' },
      { key: world().account.test, path: '/v1/videos/job_nobody/content' },
    ],
  }
  // Only a provider can sign what these take: see media-callbacks.test.ts.
  calls['POST /callbacks/{id}/{token}'] = {
    success: () => [],
    errors: () => [{ path: '/callbacks/job_nobody/token', body: {} }],
  }
  calls['POST /callbacks/{provider}'] = {
    success: () => [],
    errors: () => ['nobody', 'heygen'].map(provider => ({ path: `/callbacks/${provider}`, body: {} })),
  }
  return calls
}
