import type { QueuedCall } from '../contract.ts'
import { type InputOptions, type ModelInput, ModelInputBuilder } from './model-fields.ts'

/** The inputs of queued work, under the names that a deployment's traits give (model-fields.ts). */

export async function videoInput(call: QueuedCall<'video'>, options: InputOptions): Promise<ModelInput> {
  const { input } = call
  const fields = new ModelInputBuilder(call, input.mode, options)
  fields.prompt(input.prompt)
  await fields.file('image_field', 'start_image_url')
  await fields.file('end_image_field', 'end_image_url')
  await fields.file('video_field', 'input_video_url')
  await fields.files('images_field', 'input_references')
  await fields.files('videos_field', 'input_video_references')
  await fields.files('audios_field', 'input_audio_references')
  if (input.mode !== 'motion_control' && input.mode !== 'video') fields.duration(input.seconds, 'seconds')
  fields.choice('resolution_field', 'resolution', input.resolution)
  fields.value('aspect_ratio_field', 'aspect_ratio', input.aspectRatio)
  fields.value('negative_prompt_field', 'negative_prompt', input.negativePrompt)
  fields.value('seed_field', 'seed', input.seed)
  // A model without audio does not need the field.
  fields.value('sound_field', 'audio', input.audio, call.target.model.kind?.audio ? null : false)
  return fields.result()
}

export async function lipsyncInput(call: QueuedCall<'lipsync'>, options: InputOptions): Promise<ModelInput> {
  const { input } = call
  const fields = new ModelInputBuilder(call, input.takes, options)
  await fields.file('image_field', 'image_url')
  await fields.file('video_field', 'video_url')
  await fields.file('audio_field', 'audio_url')
  fields.prompt(input.prompt)
  fields.choice('resolution_field', 'resolution', input.resolution)
  return fields.result()
}

export async function faceSwapInput(call: QueuedCall<'face_swap'>, options: InputOptions): Promise<ModelInput> {
  const fields = new ModelInputBuilder(call, 'video', options)
  await fields.file('video_field', 'video_url')
  await fields.file('face_field', 'face_image_url')
  return fields.result()
}

export async function avatarInput(call: QueuedCall<'avatar'>, options: InputOptions): Promise<ModelInput> {
  const { input } = call
  const fields = new ModelInputBuilder(call, input.avatarId ? 'avatar' : 'image', options)
  fields.value('avatar_field', 'avatar_id', input.avatarId)
  await fields.file('image_field', 'image_url')
  fields.value('script_field', 'script', input.script)
  fields.value('voice_field', 'voice_id', input.voiceId)
  await fields.file('audio_field', 'audio_url')
  fields.choice('resolution_field', 'resolution', input.resolution)
  fields.value('aspect_ratio_field', 'aspect_ratio', input.aspectRatio)
  return fields.result()
}

export async function meshInput(call: QueuedCall<'mesh'>, options: InputOptions): Promise<ModelInput> {
  const { input } = call
  const fields = new ModelInputBuilder(call, input.from, options)
  fields.prompt(input.prompt)
  await fields.file('image_field', 'image_url')
  await fields.views()
  // On by default: a model without the field always makes a texture.
  fields.value('texture_field', 'texture', input.texture, true)
  fields.value('pbr_field', 'pbr', input.pbr, false)
  fields.value('texture_prompt_field', 'texture_prompt', input.texturePrompt)
  fields.value('target_polycount_field', 'target_polycount', input.targetPolycount)
  fields.value('topology_field', 'topology', input.topology)
  fields.value('seed_field', 'seed', input.seed)
  return fields.result()
}
