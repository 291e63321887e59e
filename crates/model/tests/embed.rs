//! Embeddings over a real socket, and by the embedded engine with a real model.
#![allow(clippy::unwrap_used, reason = "a helper of a test fails the test")]

use jarvis_model::{ApiKey, Endpoint, ModelError, openai_embedder};
use serde_json::{Value, json};
use std::time::Duration;
use wiremock::matchers::{body_partial_json, header, method, path};
use wiremock::{Mock, MockServer, ResponseTemplate};

const KEY: &str = "sk-very-secret-key";

fn endpoint(server: &MockServer) -> Endpoint {
    Endpoint {
        provider: "test".into(),
        base_url: format!("{}/v1", server.uri()),
        key: ApiKey::new(KEY),
        model: "small".into(),
        connect_timeout: Duration::from_secs(2),
        idle_timeout: Duration::from_secs(2),
        total_timeout: Duration::from_secs(20),
        retries: 2,
        extra_headers: vec![],
        extra_body: serde_json::Map::new(),
        replay_reasoning: None,
    }
}

async fn embed(server: &MockServer, texts: &[&str]) -> Result<Vec<Vec<f32>>, ModelError> {
    let texts: Vec<String> = texts.iter().map(|t| (*t).to_owned()).collect();
    openai_embedder(endpoint(server)).embed(&texts).await
}

fn answer(vectors: &[(usize, [f32; 2])]) -> Value {
    let data: Vec<Value> = vectors.iter().map(|(i, v)| json!({"index": i, "embedding": v})).collect();
    json!({"object": "list", "data": data, "model": "small", "usage": {"prompt_tokens": 3}})
}

async fn server(status: u16, body: Value) -> MockServer {
    let server = MockServer::start().await;
    let answer = ResponseTemplate::new(status).set_body_json(body);
    Mock::given(method("POST")).and(path("/v1/embeddings")).respond_with(answer).mount(&server).await;
    server
}

#[tokio::test]
async fn texts_become_vectors_of_length_one_in_their_order() {
    let server = MockServer::start().await;
    Mock::given(method("POST"))
        .and(path("/v1/embeddings"))
        .and(header("authorization", format!("Bearer {KEY}").as_str()))
        .and(body_partial_json(json!({"model": "small", "input": ["天气", "mail"]})))
        .respond_with(ResponseTemplate::new(200).set_body_json(answer(&[(1, [0.0, 2.0]), (0, [3.0, 4.0])])))
        .expect(1)
        .mount(&server)
        .await;
    assert_eq!(embed(&server, &["天气", "mail"]).await.unwrap(), [[0.6, 0.8], [0.0, 1.0]]);
    assert_eq!(embed(&server, &[]).await.unwrap().len(), 0, "nothing is asked for nothing");
    assert_eq!(openai_embedder(endpoint(&server)).id(), "test/small");
}

#[tokio::test]
async fn a_server_that_is_busy_is_asked_again() {
    let server = MockServer::start().await;
    let post = || Mock::given(method("POST")).and(path("/v1/embeddings"));
    let busy = ResponseTemplate::new(503).insert_header("retry-after-ms", "10");
    post().respond_with(busy).up_to_n_times(1).mount(&server).await;
    post().respond_with(ResponseTemplate::new(200).set_body_json(answer(&[(0, [1.0, 0.0])]))).mount(&server).await;
    assert_eq!(embed(&server, &["a"]).await.unwrap(), [[1.0, 0.0]]);
}

#[tokio::test]
async fn wrong_keys_and_answers_that_are_none_are_told_apart() {
    let refused = server(401, json!({"error": {"message": format!("bad key {KEY}")}})).await;
    let error = embed(&refused, &["a"]).await.unwrap_err();
    assert!(matches!(error, ModelError::Auth { status: 401, .. }), "{error}");
    assert!(!error.to_string().contains(KEY), "{error}");
    for body in [json!({"data": []}), json!({"choices": []}), answer(&[(0, [0.0, 0.0])])] {
        let error = embed(&server(200, body).await, &["a"]).await.unwrap_err();
        assert!(matches!(error, ModelError::Protocol { .. }), "{error}");
    }
}

#[cfg(feature = "local")]
#[tokio::test]
async fn a_model_file_embeds_in_this_process() {
    use jarvis_model::{LocalConfig, local_embedder};
    const VARIABLE: &str = "JARVIS_TEST_MODEL_DIR";
    let Some(dir) = std::env::var_os(VARIABLE) else {
        return jarvis_testkit::skipped(&format!("embeddings of a model file: {VARIABLE} names no folder with one"));
    };
    let mut files: Vec<_> = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap()).collect();
    files.retain(|file| file.path().extension().is_some_and(|e| e == "gguf"));
    files.sort_by_key(|file| file.metadata().unwrap().len());
    let config = |path: std::path::PathBuf| LocalConfig {
        model_path: path,
        name: "test".into(),
        context_tokens: 512,
        threads: None,
        gpu_layers: None,
        state_dir: std::env::temp_dir(),
    };
    let embedder = local_embedder(config(files[0].path()));
    let texts = ["the weather in Tokyo", "the weather in Osaka", "delete a row of the table", "the weather in Tokyo"];
    let vectors = embedder.embed(&texts.map(str::to_owned)).await.unwrap();
    let near = |a: usize, b: usize| vectors[a].iter().zip(&vectors[b]).map(|(a, b)| a * b).sum::<f32>();
    assert!((near(0, 3) - 1.0).abs() < 1e-3, "the same text, the same vector: {}", near(0, 3));
    assert!(near(0, 1) > near(0, 2), "{} {}", near(0, 1), near(0, 2));
    let absent = local_embedder(config("/nowhere/model.gguf".into()));
    assert!(matches!(absent.embed(&["a".to_owned()]).await, Err(ModelError::Load { .. })));
}
