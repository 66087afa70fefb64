import { Checkbox, SegmentedControl, SimpleGrid } from '@mantine/core'
import { listOf, Offered, PromptField, stillOffered, TabForm, WordField } from './fields.tsx'
import { JobPanel, useJobRun } from './job.tsx'
import { ModelPicker, useChoice } from './model-picker.tsx'
import { omitEmpty } from './omit-empty.ts'
import { Panels } from './panels.tsx'
import { usePersistedField } from './persisted-field.ts'
import { type Reference, References } from './references.tsx'

const path = '/v1/avatars/videos'
const usual = {
  avatarId: '',
  image: [] as Reference[],
  hasConsent: false,
  speech: 'script' as 'script' | 'audio',
  script: '',
  voiceId: '',
  audio: [] as Reference[],
  resolution: '',
  aspectRatio: '',
}
type Fields = typeof usual
type Set = (change: Partial<Fields>) => void

export default function AvatarTab() {
  const choice = useChoice('avatar', ({ type }) => type === 'avatar')
  const { model, slug } = choice
  const [fields, setFields] = usePersistedField('avatar.fields', usual)
  const set: Set = change => setFields(kept => ({ ...kept, ...change }))
  const run = useJobRun(path)
  const sources = listOf(model, 'sources')
  const hasOwnImage = sources.includes('image_url') && (fields.image.length > 0 || !sources.includes('avatar_id'))
  const isScript = fields.speech === 'script'
  const resolutions = listOf(model, 'resolutions')
  const aspectRatios = listOf(model, 'aspect_ratios')
  const body = {
    model: slug,
    ...omitEmpty({
      avatar_id: hasOwnImage ? '' : fields.avatarId,
      image_url: hasOwnImage ? fields.image[0]?.url : '',
      source_face_consent: (hasOwnImage && fields.hasConsent) || undefined,
      script: isScript ? fields.script : '',
      voice_id: isScript ? fields.voiceId : '',
      audio_url: isScript ? '' : fields.audio[0]?.url,
      resolution: stillOffered(resolutions, fields.resolution),
      aspect_ratio: stillOffered(aspectRatios, fields.aspectRatio),
    }),
  }
  const hasFace = hasOwnImage ? fields.image.length > 0 && fields.hasConsent : fields.avatarId !== ''
  const hasSpeech = isScript ? fields.script.trim() !== '' && fields.voiceId !== '' : fields.audio.length > 0
  const form = (
    <TabForm
      submit="Generate"
      pending={run.submit.isPending}
      disabled={slug === '' || !hasFace || !hasSpeech}
      onSubmit={() => run.submit.mutate(body)}
    >
      <ModelPicker choice={choice} />
      <Face sources={sources} hasOwnImage={hasOwnImage} fields={fields} set={set} />
      <Speech fields={fields} set={set} />
      <SimpleGrid cols={2} spacing="sm">
        <Offered
          label="Resolution"
          options={resolutions}
          value={fields.resolution}
          onChange={resolution => set({ resolution })}
        />
        <Offered
          label="Aspect ratio"
          options={aspectRatios}
          value={fields.aspectRatio}
          onChange={aspectRatio => set({ aspectRatio })}
        />
      </SimpleGrid>
    </TabForm>
  )
  const result = <JobPanel run={run} title="Talking avatar" empty="Your video appears here" />
  return <Panels form={form} result={result} request={{ path, body }} />
}

function Face({
  sources,
  hasOwnImage,
  fields,
  set,
}: {
  sources: string[]
  hasOwnImage: boolean
  fields: Fields
  set: Set
}) {
  return (
    <>
      {sources.includes('avatar_id') && !hasOwnImage && (
        <WordField
          label="Avatar ID"
          description="An ID from GET /v1/avatars"
          value={fields.avatarId}
          onChange={avatarId => set({ avatarId })}
        />
      )}
      {sources.includes('image_url') && (
        <References label="Your own picture" accept="image/*" value={fields.image} onChange={image => set({ image })} />
      )}
      {hasOwnImage && (
        <Checkbox
          label="The owner of the face has agreed to this use"
          checked={fields.hasConsent}
          onChange={event => set({ hasConsent: event.currentTarget.checked })}
        />
      )}
    </>
  )
}

function Speech({ fields, set }: { fields: Fields; set: Set }) {
  return (
    <>
      <SegmentedControl
        aria-label="Speech"
        data={[
          { value: 'script', label: 'Script' },
          { value: 'audio', label: 'Audio file' },
        ]}
        value={fields.speech}
        onChange={speech => set({ speech: speech as Fields['speech'] })}
      />
      {fields.speech === 'script' ? (
        <>
          <PromptField label="Script" value={fields.script} onChange={script => set({ script })} />
          <WordField
            label="Voice ID"
            description="An ID from GET /v1/avatars/voices"
            value={fields.voiceId}
            onChange={voiceId => set({ voiceId })}
          />
        </>
      ) : (
        <References label="Audio" accept="audio/*" value={fields.audio} onChange={audio => set({ audio })} />
      )}
    </>
  )
}
