import { loadCatalog } from '../../shared/catalog/catalog.ts'
import { publicPricing } from '../../shared/catalog/prices.ts'
import { avatar } from '../../shared/kinds/avatar.ts'
import { faceSwap } from '../../shared/kinds/face-swap.ts'
import { lipsync } from '../../shared/kinds/lipsync.ts'
import { listOf, type Quote } from '../../shared/kinds/media.ts'
import { mesh } from '../../shared/kinds/mesh.ts'
import { video } from '../../shared/kinds/video.ts'
import { test } from '../support/test.ts'

const catalog = loadCatalog()
const marginPpm = 50_000n
const models = [...catalog.models.values()].filter(({ disabled }) => !disabled)
const deployments = (type: string) =>
  models
    .filter(model => model.type === type)
    .flatMap(model => model.providers.map(deployment => ({ model, deployment })))
const nano = (quote: Quote) => Number('chargeNano' in quote ? quote.chargeNano : quote.holdNano)
/** Of a listed price and what it is multiplied with, as the ledger rounds it. */
const times = (usd: string | undefined, units: number) => Math.round(Number((Number(usd) * units * 1e9).toFixed(3)))

test('a second costs what GET /v1/models says, at each resolution', t => {
  let compared = 0
  for (const { model, deployment } of deployments('video')) {
    const listed = publicPricing(deployment.price, marginPpm)
    for (const resolution of listOf(model, 'resolutions')) {
      const input = {
        mode: 'text',
        prompt: 'x',
        seconds: 7.5,
        resolution,
        aspectRatio: null,
        negativePrompt: null,
        seed: null,
        audio: null,
      } as const
      const usd = listed[`per_second_${resolution}`] ?? listed.per_second
      t.is(nano(video.quote(input, deployment, marginPpm, {})), times(usd, 7.5), `${model.id} ${resolution}`)
      compared++
    }
  }
  for (const { model, deployment } of deployments('lipsync')) {
    const input = { takes: 'video', prompt: null, resolution: null, seconds: 12.345, audioSeconds: 12.345 } as const
    const { per_second } = publicPricing(deployment.price, marginPpm)
    t.is(nano(lipsync.quote(input, deployment, marginPpm, {})), times(per_second, 12.345), model.id)
    compared++
  }
  t.true(compared > 20)
})

test('the first resolution is the one that the unnamed price is for', t => {
  for (const type of ['video', 'avatar', 'lipsync'])
    for (const { model, deployment } of deployments(type)) {
      const listed = publicPricing(deployment.price, marginPpm)
      const [first] = listOf(model, 'resolutions')
      t.is(listed[`per_second_${first}`] ?? listed.per_second, listed.per_second, model.id)
    }
})

test('a mesh costs what GET /v1/models says, for each option', t => {
  for (const { model, deployment } of deployments('mesh')) {
    const listed = publicPricing(deployment.price, marginPpm)
    const base = {
      from: 'text',
      prompt: 'x',
      images: 0,
      texturePrompt: null,
      targetPolycount: null,
      topology: null,
      seed: null,
    } as const
    for (const [texture, pbr, option] of [
      [true, false, 'textured'],
      [true, true, 'pbr'],
      [false, false, 'untextured'],
    ] as const) {
      const usd = listed[`per_request_${option}`] ?? listed.per_request
      t.is(
        nano(mesh.quote({ ...base, texture, pbr }, deployment, marginPpm, {})),
        times(usd, 1),
        `${model.id} ${option}`,
      )
    }
  }
})

test('what is held covers what GET /v1/models says of the longest work', t => {
  for (const { model, deployment } of deployments('face_swap')) {
    const { price } = deployment
    if (price.unit !== 'credit') return void t.fail(model.id)
    const { per_credit } = publicPricing(price, marginPpm)
    const maxSeconds = Number(model.kind?.max_duration_s)
    const input = { seconds: maxSeconds, maxSeconds, sourceFaceConsent: true } as const
    t.is(nano(faceSwap.quote(input, deployment, marginPpm, {})), times(per_credit, price.max_credits))
    t.is(Number(faceSwap.cost!(input, deployment, marginPpm, { credits: 7, seconds: null })), times(per_credit, 7))
    t.is(faceSwap.cost!(input, deployment, marginPpm, { credits: null, seconds: 5 }), null)
  }
  for (const { model, deployment } of deployments('avatar')) {
    const listed = publicPricing(deployment.price, marginPpm)
    for (const resolution of listOf(model, 'resolutions')) {
      const input = {
        avatarId: 'a',
        script: 'x',
        voiceId: 'v',
        resolution,
        aspectRatio: null,
        estimatedSeconds: 9,
        sourceFaceConsent: false,
      }
      const usd = listed[`per_second_${resolution}`] ?? listed.per_second
      t.is(nano(avatar.quote(input, deployment, marginPpm, {})), times(usd, 9))
      t.is(Number(avatar.cost!(input, deployment, marginPpm, { credits: null, seconds: 3.4 })), times(usd, 3.4))
    }
  }
})
