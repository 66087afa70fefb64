import { listOf, Offered, PromptField, stillOffered, TabForm } from './fields.tsx'
import { JobPanel, useJobRun } from './job.tsx'
import { ModelPicker, useChoice } from './model-picker.tsx'
import { omitEmpty } from './omit-empty.ts'
import { Panels } from './panels.tsx'
import { usePersistedField } from './persisted-field.ts'
import { type Reference, References } from './references.tsx'

const path = '/v1/lipsync'
const usual = { source: [] as Reference[], audio: [] as Reference[], prompt: '', resolution: '' }

export default function LipSyncTab() {
  const choice = useChoice('lipsync', ({ type }) => type === 'lipsync')
  const { model, slug } = choice
  const [fields, setFields] = usePersistedField('lipsync.fields', usual)
  const set = (change: Partial<typeof usual>) => setFields(kept => ({ ...kept, ...change }))
  const run = useJobRun(path)
  const takes = model?.kind.takes === 'image' ? 'image' : 'video'
  const takesPrompt = model?.kind.prompt === true
  const resolutions = listOf(model, 'resolutions')
  const source = fields.source.filter(({ contentType }) => contentType.startsWith(`${takes}/`))
  const body = {
    model: slug,
    ...omitEmpty({
      [`${takes}_url`]: source[0]?.url,
      audio_url: fields.audio[0]?.url,
      prompt: takesPrompt ? fields.prompt : '',
      resolution: stillOffered(resolutions, fields.resolution),
    }),
  }
  const form = (
    <TabForm
      submit="Generate"
      pending={run.submit.isPending}
      disabled={slug === '' || source.length === 0 || fields.audio.length === 0}
      onSubmit={() => run.submit.mutate(body)}
    >
      <ModelPicker choice={choice} />
      <References
        label={takes === 'image' ? 'Image to animate' : 'Video to dub'}
        accept={`${takes}/*`}
        value={source}
        onChange={files => set({ source: files })}
      />
      <References label="Speech" accept="audio/*" value={fields.audio} onChange={audio => set({ audio })} />
      {takesPrompt && <PromptField required={false} value={fields.prompt} onChange={prompt => set({ prompt })} />}
      <Offered
        label="Resolution"
        options={resolutions}
        value={fields.resolution}
        onChange={resolution => set({ resolution })}
      />
    </TabForm>
  )
  const result = <JobPanel run={run} title="Lip sync" empty="Your video appears here" />
  return <Panels form={form} result={result} request={{ path, body }} />
}
